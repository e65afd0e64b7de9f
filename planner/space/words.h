/* Words that other frameworks have for what galplan calls otherwise. One table: --space, --schedule, --prices and the
 * columns of galplan estimate read it, and their help prints it. Words are compared without regard to case and
 * punctuation (gal_word_same): ZeRO-3 is zero3, Micro_Batch_Size is micro-batch-size. */
#ifndef GAL_PLANNER_SPACE_WORDS_H
#define GAL_PLANNER_SPACE_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* X(what galplan calls it, the words of others with ", " between them) */
#define GAL_SPACE_WORDS(X)                                                                                             \
    X("zero3", "fsdp, fsdp2, full-shard")                                                                              \
    X("zero2", "shard-grad-op")                                                                                        \
    X("zero1", "distributed-optimizer")                                                                                \
    X("sdp", "zero")                                                                                                   \
    X("dp", "ddp")                                                                                                     \
    X("dp,zero3", "hsdp")                                                                                              \
    X("tp", "tensor-parallel")                                                                                         \
    X("sp", "sequence-parallel")                                                                                       \
    X("ring,zigzag", "cp, context-parallel")                                                                           \
    X("recompute", "ckpt, checkpointing, activation-checkpointing, ac")                                                \
    X("selective", "sac")                                                                                              \
    X("offload", "cpu-offload")
#define GAL_LAYOUT_SCHEDULE_WORDS(X)                                                                                   \
    X("gpipe", "afab")                                                                                                 \
    X("1f1b", "pipedream-flush")                                                                                       \
    X("interleaved", "interleaved-1f1b, vpp")
#define GAL_SCHEDULE_WORDS(X)                                                                                          \
    GAL_LAYOUT_SCHEDULE_WORDS(X)                                                                                       \
    X("zero-bubble", "zb, zb-h1, zbh1")
#define GAL_RECOMPUTE_WORDS(X)                                                                                         \
    X("none", "no, off, false, 0")                                                                                     \
    X("selective", "sac")                                                                                              \
    X("full", "ckpt, yes, on, true, 1")
#define GAL_ZERO_WORDS(X)                                                                                              \
    X("0", "zero0, ddp, no-shard")                                                                                     \
    X("1", "zero1, distributed-optimizer")                                                                             \
    X("2", "zero2, shard-grad-op")                                                                                     \
    X("3", "zero3, fsdp, fsdp2, full-shard")
#define GAL_COLUMN_WORDS(X)                                                                                            \
    X("layers", "num_layers, n_layers, num_hidden_layers")                                                             \
    X("hidden", "hidden_size, d_model, n_embd")                                                                        \
    X("heads", "num_heads, n_heads, num_attention_heads")                                                              \
    X("kv_heads", "num_kv_heads, num_key_value_heads")                                                                 \
    X("ffn", "ffn_hidden, ffn_hidden_size, intermediate_size")                                                         \
    X("seq", "seq_len, seq_length, sequence, sequence_length")                                                         \
    X("vocab", "vocab_size, vocabulary")                                                                               \
    X("dtype", "precision, torch_dtype")                                                                               \
    X("gpus", "devices, num_gpus, ngpus, world_size")                                                                  \
    X("dp", "dp_size, dp_degree, data_parallel")                                                                       \
    X("tp", "tp_size, tp_degree, tensor_parallel")                                                                     \
    X("pp", "pp_size, pp_degree, pipeline_parallel, stages")                                                           \
    X("cp", "cp_size, context_parallel, context_parallel_size")                                                        \
    X("ulysses", "ulysses_degree, ulysses_size")                                                                       \
    X("ring", "ring_degree, ring_attention")                                                                           \
    X("sp", "sequence_parallel")                                                                                       \
    X("zero", "zero_stage")                                                                                            \
    X("microbatch", "mbs, micro_batch, micro_batch_size")                                                              \
    X("global_batch", "gbs, batch, batch_size, global_batch_size")                                                     \
    X("recompute", "ckpt, act_ckpt, checkpointing, activation_checkpointing, ac")                                      \
    X("chunks", "vpp, virtual_stages")

typedef enum gal_vocabulary {
    GAL_VOCABULARY_SPACE,
    GAL_VOCABULARY_SCHEDULE,
    GAL_VOCABULARY_RECOMPUTE,
    GAL_VOCABULARY_ZERO, /* the column zero */
    GAL_VOCABULARY_COLUMN,
    GAL_VOCABULARY_COUNT
} gal_vocabulary;

/* A line of help, per row of the table. */
#define GAL_WORDS_HELP_LINE(meaning, words) "  " words ": " meaning "\n"

/* What galplan calls a word of others; NULL: the vocabulary has no such word. */
const char *gal_words_meaning(gal_vocabulary vocabulary, const char *word);

/* Index of the name that a word means: a name, or a word of others for it. name_count: none. */
uint32_t gal_words_find(gal_vocabulary vocabulary, const char *word, const char *const *names, uint32_t name_count);

/* For an error: `known: a, b, c`, with `did you mean "b"?` and a space in front where a name, or a word of others for
 * names, is near. Cut to capacity. */
void gal_words_suggest(gal_vocabulary vocabulary, const char *word, const char *const *names, uint32_t name_count,
                       char *text, size_t capacity);

#endif
