/* Attributes of functions with long loops. */
#ifndef GAL_SCHEMAS_BASE_VECTOR_H
#define GAL_SCHEMAS_BASE_VECTOR_H

/* On a function with a long loop: versions for AVX-512 and AVX2, one of which is chosen when the program is loaded. No
 * products and sums are fused (-ffp-contract=off), so all versions round alike. GCC only: clang 14 gives the resolver
 * of a static function external linkage, and two files collide. Not under sanitizers, whose runtimes are not yet up
 * when resolvers run. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&                       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GAL_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GAL_VECTOR
#endif

#endif
