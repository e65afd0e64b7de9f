"""A plan that a search wrote, as the base of plans made by hand: without what was claimed of it."""
import copy

CLAIMS_LEFT_OUT = ["certificate", "simulated_interval"]
CLAIMS_NEEDED = ["objective_seconds", "simulated_seconds", "lower_bound_seconds"]


def without_claims(plan):
    """A copy of the document whose claims are absent, or 0 where a plan must have them."""
    base = {key: copy.deepcopy(value) for key, value in plan.items() if key not in CLAIMS_LEFT_OUT}
    base.update((key, 0) for key in CLAIMS_NEEDED)
    return base
