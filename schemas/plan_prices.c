#include "schemas/plan_prices.h"

#include "schemas/limits.h"

static const double rounding = 1e-9;

static void read_risk(const gal_json_cursor *at, gal_risk *out)
{
    out->present = true;
    out->quantile = gal_json_f64(at, "quantile", GAL_RISK_MIN, GAL_RISK_MAX);
    out->quantile_seconds = gal_json_f64(at, "quantile_seconds", 0.0, GAL_SECONDS_MAX);
    out->memory_bytes = gal_json_u64(at, "memory_bytes", 1, GAL_BYTES_MAX);
    out->memory_chance = gal_json_f64(at, "memory_chance", 0.0, 1.0 - GAL_RISK_MIN);
    if (out->memory_chance > 1.0 - out->quantile + rounding) {
        gal_json_member_error(at, "memory_chance", "must be at most 1 - quantile");
    }
    gal_json_reject_unknown(at);
}

static void read_pricing(const gal_json_cursor *at, gal_pricing *out)
{
    out->present = true;
    out->bytes = gal_json_u64(at, "bytes", 1, GAL_BYTES_MAX);
    const gal_json_cursor framework = gal_json_object(at, "framework");
    gal_framework_read_at(&framework, &out->framework);
    if (gal_json_has(at, "constants")) {
        const gal_json_cursor constants = gal_json_object(at, "constants");
        gal_constants_read_at(&constants, &out->constants);
    }
    gal_json_reject_unknown(at);
}

void gal_plan_prices_read_at(const gal_json_cursor *root, gal_plan *plan)
{
    if (gal_json_has(root, "risk")) {
        const gal_json_cursor risk = gal_json_object(root, "risk");
        read_risk(&risk, &plan->risk);
    }
    if (gal_json_has(root, "pricing")) {
        const gal_json_cursor pricing = gal_json_object(root, "pricing");
        read_pricing(&pricing, &plan->pricing);
    }
    const gal_certificate *certificate = &plan->certificate;
    if (certificate->present && (certificate->objective == GAL_OBJECTIVE_FRAMEWORK) != plan->pricing.present) {
        gal_json_member_error(root, "certificate", "its objective must be framework_1 with a pricing, and only then");
    }
}

void gal_plan_prices_write_at(gal_json_writer *out, const gal_plan *plan)
{
    const gal_risk *risk = &plan->risk;
    const gal_pricing *pricing = &plan->pricing;
    if (risk->present) {
        gal_json_begin_object(out, "risk");
        gal_json_put_f64(out, "quantile", risk->quantile);
        gal_json_put_f64(out, "quantile_seconds", risk->quantile_seconds);
        gal_json_put_u64(out, "memory_bytes", risk->memory_bytes);
        gal_json_put_f64(out, "memory_chance", risk->memory_chance);
        gal_json_end_object(out);
    }
    if (pricing->present) {
        gal_json_begin_object(out, "pricing");
        gal_json_put_u64(out, "bytes", pricing->bytes);
        gal_json_begin_object(out, "framework");
        gal_framework_write_at(out, &pricing->framework);
        gal_json_end_object(out);
        if (pricing->constants.row_count > 0) {
            gal_json_begin_object(out, "constants");
            gal_constants_write_at(out, &pricing->constants);
            gal_json_end_object(out);
        }
        gal_json_end_object(out);
    }
}
