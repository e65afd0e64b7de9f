#include "planner/search/risk.h"

#include <math.h>

#include "costmodel/interval.h"
#include "planner/cell/finalist.h"

static double fixed_factor(double quantile)
{
    return gal_interval_quantile(exp(-GAL_INTERVAL_MEASURED), exp(GAL_INTERVAL_MEASURED), quantile);
}

uint64_t gal_risk_memory_bytes(uint64_t limit_bytes, uint64_t fixed_bytes, double quantile)
{
    const double kept = ceil((double)fixed_bytes * (fixed_factor(quantile) - 1.0));
    return kept < (double)limit_bytes ? limit_bytes - (uint64_t)kept : 0;
}

double gal_risk_memory_chance(uint64_t limit_bytes, uint64_t arena_bytes, uint64_t fixed_bytes)
{
    if (arena_bytes >= limit_bytes) {
        return fixed_bytes > 0 || arena_bytes > limit_bytes ? 1.0 : 0.0;
    }
    if (fixed_bytes == 0) {
        return 0.0;
    }
    const double room = log((double)(limit_bytes - arena_bytes) / (double)fixed_bytes);
    return gal_normal_chance(-room / gal_interval_log_deviation(GAL_INTERVAL_MEASURED));
}

double gal_risk_plan_chance(const gal_plan *plan, uint64_t limit_bytes)
{
    if (plan->pricing.present) {
        const double room = log((double)limit_bytes / (double)plan->pricing.bytes);
        const double deviation = gal_interval_log_deviation(plan->pricing.framework.bytes_spread);
        return deviation > 0.0 ? gal_normal_chance(-room / deviation) : room < 0.0 ? 1.0 : 0.0;
    }
    double chance = 0.0;
    for (uint32_t p = 0; p < plan->stage_count; p++) {
        const uint64_t bytes = plan->stage[p].predicted_bytes;
        const uint64_t arena = bytes > plan->fixed_bytes ? bytes - plan->fixed_bytes : 0;
        chance = fmax(chance, gal_risk_memory_chance(limit_bytes, arena, plan->fixed_bytes));
    }
    return chance;
}

gal_code gal_risk_note(const gal_search_request *median, double quantile, uint64_t limit_bytes,
                       gal_search_result *result, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < result->finalist_count && code == GAL_OK; i++) {
        gal_finalist *f = &result->finalist[i];
        const double simulated = f->simulated_seconds;
        f->plan.risk = (gal_risk){.present = true,
                                  .quantile = quantile,
                                  .quantile_seconds = f->plan.pricing.present ? f->objective_seconds : simulated,
                                  .memory_bytes = limit_bytes,
                                  .memory_chance = gal_risk_plan_chance(&f->plan, limit_bytes)};
        if (!f->plan.pricing.present) {
            code = gal_finalist_predict(median, f, err);
            f->simulated_seconds = simulated;
        }
    }
    return code;
}

gal_code gal_risk_check(const gal_plan *plan, gal_error *err)
{
    const gal_risk *risk = &plan->risk;
    const double chance = gal_risk_plan_chance(plan, risk->memory_bytes);
    if (!(fabs(chance - risk->memory_chance) <= 1e-9)) {
        return gal_fail(err, GAL_NO, "risk: the plan claims a chance of %.9g to run out of memory, it is %.9g",
                        risk->memory_chance, chance);
    }
    const uint64_t left = plan->pricing.present
                              ? risk->memory_bytes /* its search takes the quantile of bytes itself */
                              : gal_risk_memory_bytes(risk->memory_bytes, plan->fixed_bytes, risk->quantile);
    if (plan->certificate.present && plan->certificate.memory_bytes != left) {
        return gal_fail(err, GAL_NO, "risk: the certificate has %llu bytes, at quantile %g of %llu there are %llu",
                        (unsigned long long)plan->certificate.memory_bytes, risk->quantile,
                        (unsigned long long)risk->memory_bytes, (unsigned long long)left);
    }
    return GAL_OK;
}
