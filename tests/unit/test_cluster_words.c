/* Clusters in words: what they build, what they leave to the device, and which word is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/cluster_words.h"

static void make(const char *words, gal_cluster *out)
{
    gal_error err = {0};
    if (gal_cluster_from_words(words, NULL, out, &err) != GAL_OK) {
        fail_msg("%s: %s", words, err.text);
    }
}

/* Different ways to say a cluster, the name of each being the words with nothing left out. */
static void test_ways_to_say(void **state)
{
    (void)state;
    static const struct {
        const char *words, *name;
    } said[] = {
        {"8xh100", "8x h100-sxm-80g, nvlink-4"},
        {"8 x H100 SXM", "8x h100-sxm-80g, nvlink-4"},
        {"8x NVIDIA H100 80GB HBM3", "8x h100-sxm-80g, nvlink-4"},
        {"8\xc3\x97h100", "8x h100-sxm-80g, nvlink-4"},
        {"4xh100", "4x h100-sxm-80g, nvlink-4"}, /* a part of a node */
        {"16xh100", "2x8 h100-sxm-80g, nvlink-4, infiniband-3200g"},
        {"2x8 h100, 8x400Gbit/s infiniband", "2x8 h100-sxm-80g, nvlink-4, infiniband-3200g"},
        {"2x8xh100 ib 400 Gbit per gpu", "2x8 h100-sxm-80g, nvlink-4, infiniband-3200g"},
        {"2x8 h100, ib=400g/gpu", "2x8 h100-sxm-80g, nvlink-4, infiniband-3200g"},
        {"2x8 h100 infiniband-400g", "2x8 h100-sxm-80g, nvlink-4, infiniband-400g"},
        {"8xh100 pcie", "8x h100-pcie-80g, pcie-5"},
        {"8xh100, 40GB", "8x h100-sxm-80g, 40GB, nvlink-4"},
        {"8xh100, nvlink 200GB/s", "8x h100-sxm-80g, nvlink-4 200GB/s"},
        {"4x8 a100-80g", "4x8 a100-sxm-80g, nvlink-3, infiniband-1600g"},
        {"8x a100 80 GB", "8x a100-sxm-80g, nvlink-3"},
        {"8x NVIDIA A100-SXM4-80GB", "8x a100-sxm-80g, nvlink-3"},
        {"2x4 rtx3090, pcie4, ethernet 10Gbit", "2x4 rtx-3090, pcie-4, ethernet-10g"},
        {"2x4 rtx-3090 pcie-4 ethernet=10Gbit", "2x4 rtx-3090, pcie-4, ethernet-10g"},
        {"2x4 GeForce RTX 3090, pcie gen4, eth 1.25 GB/s", "2x4 rtx-3090, pcie-4, ethernet-10g"},
        {"2x4 3090, 10GbE", "2x4 rtx-3090, pcie-4, ethernet-10g"},
        {"2x4 rtx3090, ethernet, 10 Gbps", "2x4 rtx-3090, pcie-4, ethernet-10g"},
        {"8x4090", "8x rtx-4090, pcie-4"}, /* no 8 nodes of 4090 devices */
        {"4x1 rtx4090, 25GbE", "4x1 rtx-4090, ethernet-25g"},
        {"1xrtx4090", "1x rtx-4090"},
        {"8x rtx4090 pcie-3", "8x rtx-4090, pcie-3"},
        {"8x AMD Instinct MI300X", "8x mi300x-192g, infinity-fabric"},
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        gal_cluster cluster, again;
        make(said[i].words, &cluster);
        assert_string_equal(cluster.name, said[i].name);
        make(cluster.name, &again);
        assert_memory_equal(&again, &cluster, sizeof cluster);
        assert_true(gal_cluster_is_words(said[i].words));
    }
}

/* Two nodes of 4: 10 Gbit/s are 1.25e9 bytes/s a node, 1.25e9 / 4 = 312.5e6 for a device while all send. */
static void test_shared_network(void **state)
{
    (void)state;
    gal_cluster cluster;
    char said[GAL_CLUSTER_SAID_BYTES];
    make("2x4 rtx3090, pcie-4, ethernet 10Gbit", &cluster);
    assert_int_equal(cluster.device_count, 8);
    assert_int_equal(cluster.level_count, 2);
    assert_string_equal(cluster.level[0].name, "pcie-4");
    assert_int_equal(cluster.level[0].span_devices, 4);
    assert_true(cluster.level[0].bytes_per_second == 31.5e9 && !cluster.level[0].shared);
    assert_string_equal(cluster.level[1].name, "ethernet-10g");
    assert_int_equal(cluster.level[1].span_devices, 8);
    assert_true(cluster.level[1].bytes_per_second == 312.5e6 && cluster.level[1].shared);
    assert_true(cluster.device.memory_bytes == UINT64_C(24000000000) && cluster.device.gemm_fraction > 0.0);
    gal_cluster_say(&cluster, said);
    assert_string_equal(said, "8 x rtx-3090 of 24 GB; 4 by pcie-4, 31.5 GB/s each; 8 by ethernet-10g, 1.25 GB/s a node "
                              "shared by its 4 devices: 0.3125 GB/s each");
    make("2x1 rtx3090, ethernet 10Gbit", &cluster); /* one device has the whole card */
    assert_int_equal(cluster.level_count, 1);
    assert_true(cluster.level[0].bytes_per_second == 1.25e9 && !cluster.level[0].shared);
}

/* The usual node: 400 Gbit/s = 50e9 bytes/s a GPU, whatever a node holds. */
static void test_usual_node(void **state)
{
    (void)state;
    gal_cluster cluster;
    make("2x4 h100", &cluster);
    assert_string_equal(cluster.level[0].name, "nvlink-4");
    assert_true(cluster.level[0].bytes_per_second == 450e9);
    assert_string_equal(cluster.level[1].name, "infiniband-1600g");
    assert_true(cluster.level[1].bytes_per_second == 50e9);
    make("8xh100, 40GiB", &cluster);
    assert_true(cluster.device.memory_bytes == UINT64_C(40) << 30);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *words, *part;
    } refused[] = {
        {"2x4 rtx3091, pcie4", "unknown device 'rtx3091', did you mean \"rtx-3090\"? (known: h100-sxm-80g, "},
        {"8xtpu", "unknown device 'tpu' (known: h100-sxm-80g, "},
        {"8x", "no device is named"},
        {"8xh100, nvlnk", "'nvlnk' is no link of a cluster, did you mean \"nvlink\"? (known: nvlink-2, "},
        {"8xh100, 20", "'20' is no link of a cluster"},
        {"h100", "'h100' does not say how many devices: say '8xh100'"},
        {"12xh100",
         "12 devices are no whole nodes of 8 h100-sxm-80g: say how they stand, NODES x DEVICES, as in '2x6 "},
        {"0xh100", "a cluster has 1 to 1048576 devices"},
        {"0x8 h100", "a cluster has 1 to 1048576 devices"},
        {"99999999999999999999x h100", "a cluster has 1 to 1048576 devices"},
        {"2x4 rtx3090", "nodes of rtx-3090 have no usual network: say its rate in Gbit per node"},
        {"2x8 h100, ethernet", "no usual network of this kind"},
        {"8xh100, ib 400Gbit", "there is one node: nothing for infiniband to join"},
        {"2x1 rtx3090, pcie-4, ethernet 10Gbit", "there is nothing for pcie to join"},
        {"8xh100, pcie-5", "h100-sxm-80g are joined by nvlink-4 in a node, not by pcie-5: cards in slots are"},
        {"8xrtx3090, pcie-5", "rtx-3090 are joined by pcie-4 in a node, not by pcie-5"},
        {"8xrtx3090, nvlink", "rtx-3090 are joined by pcie-4 in a node, not by nvlink"},
        {"8xh100, nvlink 200Gbit", "the rate of a link in a node is in bytes: say 'nvlink 25 GB/s'"},
        {"8xh100, nvlink, nvlink", "joined by one kind of link"},
        {"2x8 h100, ib 400g, ethernet 10g", "joined by one network"},
        {"8xh100, 10Gbit", "a rate without its network: say 'ethernet 10 Gbit'"},
        {"2x8 h100, ib 9999999999999999Tbit", "the rate of a link is at most"},
        {"8xh100, 100GB", "h100-sxm-80g has 80 GB: its memory can be said smaller, not 100 GB"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        gal_cluster cluster;
        gal_error err = {0};
        if (gal_cluster_from_words(refused[i].words, NULL, &cluster, &err) != GAL_ERR_USAGE ||
            strstr(err.text, refused[i].part) == NULL) {
            fail_msg("%s: %s", refused[i].words, err.text);
        }
    }
    assert_false(gal_cluster_is_words("h100-9"));
    assert_false(gal_cluster_is_words("8xh100.json"));
    assert_false(gal_cluster_is_words("cluster"));
}

/* Wherever a document is read: a file of that name first, then words. */
static void test_read_as_documents(void **state)
{
    (void)state;
    char path[] = "/tmp/gal_cluster_words_XXXXXX";
    gal_cluster made, back;
    gal_error err = {0};
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    assert_int_equal(gal_cluster_read("2x4 rtx3090, pcie4, ethernet 10Gbit", &made, &err), GAL_OK);
    assert_int_equal(gal_cluster_write(path, &made, &err), GAL_OK);
    assert_int_equal(gal_cluster_read(path, &back, &err), GAL_OK);
    assert_memory_equal(&back, &made, sizeof back);
    (void)unlink(path);
    assert_int_equal(gal_cluster_read("h100-256", &made, &err), GAL_OK);
    assert_string_equal(made.name, "h100-256");
    assert_int_equal(gal_cluster_read("H100_256", &made, &err), GAL_OK); /* as other names */
    assert_string_equal(made.name, "h100-256");
    make("256x h100", &back);
    memcpy(back.name, made.name, sizeof back.name);
    assert_memory_equal(&back, &made, sizeof back);
    assert_int_equal(gal_cluster_read("8xtpu", &made, &err), GAL_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways_to_say), cmocka_unit_test(test_shared_network),    cmocka_unit_test(test_usual_node),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_read_as_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
