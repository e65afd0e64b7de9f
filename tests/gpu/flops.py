"""Floating-point operations that a model needs, and what share of a device's rate a measured step is.

Products count 2 operations per weight and token forward and 4 backward; recomputation counts nothing. Causal attention
counts the half of the scores that is not masked: 2 products of sequence * head_count * head_dim / 2 multiply-adds per
token and layer forward, twice that backward, so 6 * layers * sequence * head_count * head_dim. The head counts with the
vocabulary's real size, embeddings do not count. Source: A. Chowdhery et al., "PaLM", appendix B, but for the half."""


def product_weights(model):
    """Weights of products that a token passes through, of a decoder of family decoder or llama."""
    hidden, ffn = model["hidden"], model["ffn_hidden"]
    attention = model["head_count"] * head_dim(model)
    if model["family"] == "decoder":
        layer = 4 * hidden * attention + 2 * hidden * ffn
    elif model["family"] == "llama":
        shared = model["kv_head_count"] * head_dim(model)
        layer = 2 * hidden * attention + 2 * hidden * shared + 3 * hidden * ffn
    else:
        raise ValueError(f"no formula for the family {model['family']}")
    return model["layer_count"] * layer + hidden * model["vocabulary"]


def head_dim(model):
    return model.get("head_dim", model["hidden"] // model["head_count"])


def flops_per_token(model):
    attention = model["layer_count"] * model["sequence_length"] * model["head_count"] * head_dim(model)
    return 6 * product_weights(model) + 6 * attention


def utilisation(model, samples, seconds, device_flops_per_second):
    """The share of the device's rate that steps of so many samples, each in so many seconds, make use of."""
    tokens = samples * model["sequence_length"]
    return flops_per_token(model) * tokens / seconds / device_flops_per_second
