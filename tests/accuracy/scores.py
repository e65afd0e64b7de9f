"""How far predictions are off: errors, rank correlation, regret, intervals."""
import collections
import math

def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ranks(values):
    return [sum(w < v for w in values) + 0.5 * sum(w == v for w in values) for v in values]


def spearman(x, y):
    a, b = ranks(x), ranks(y)
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    xy = sum((p - ma) * (q - mb) for p, q in zip(a, b))
    xx, yy = sum((p - ma) ** 2 for p in a), sum((q - mb) ** 2 for q in b)
    return xy / math.sqrt(xx * yy) if xx > 0 and yy > 0 else 0.0


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def within_groups(answers):
    """Of groups of at least 6: rank correlations, and how much slower the layout predicted the fastest is."""
    groups = collections.defaultdict(list)
    for a in answers:
        groups[a["group"]].append((float(a["estimated_seconds"]), float(a["seconds"])))
    correlations, regrets = [], []
    for members in groups.values():
        if len(members) >= 6:
            correlations.append(spearman([p for p, _ in members], [m for _, m in members]))
            regrets.append(min(members)[1] / min(m for _, m in members) - 1.0)
    return correlations, regrets


def worst_regrets(answers, count):
    """Of groups of at least 6 those whose layout predicted the fastest is the worst: (regret, it, the fastest)."""
    groups = collections.defaultdict(list)
    for a in answers:
        groups[a["group"]].append(a)
    worst = []
    for members in groups.values():
        if len(members) >= 6:
            chosen = min(members, key=lambda a: float(a["estimated_seconds"]))
            fastest = min(members, key=lambda a: float(a["seconds"]))
            worst.append((float(chosen["seconds"]) / float(fastest["seconds"]) - 1.0, chosen, fastest))
    return sorted(worst, key=lambda entry: -entry[0])[:count]


def figures(answers):
    """name -> figure"""
    error = [abs(float(a["estimated_seconds"]) / float(a["seconds"]) - 1.0) for a in answers]
    out = {"median": median(error), "mean": sum(error) / len(error), "worst": max(error)}
    correlations, regrets = within_groups(answers)
    if correlations:
        out.update({"spearman": median(correlations), "regret": median(regrets), "regret95": quantile(regrets, 0.95)})
    bytes_error = [abs(float(a["estimated_bytes"]) / float(a["bytes"]) - 1.0) for a in answers if a.get("bytes")]
    if bytes_error:
        out.update({"bytes mean": sum(bytes_error) / len(bytes_error), "bytes worst": max(bytes_error)})
    if len(answers) >= 20:
        inside = sum(float(a["low_seconds"]) <= float(a["seconds"]) <= float(a["high_seconds"]) for a in answers)
        width = [(float(a["high_seconds"]) - float(a["low_seconds"])) / float(a["estimated_seconds"]) for a in answers]
        out.update({"coverage": inside / len(answers), "width": median(width)})
    return out
