/* What joins GPUs, from answers of NVML that were written by hand: machines as their makers describe them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/fabric.h"

enum { TO_SWITCH = 100, NO_LINK = -1 };

/* One machine: of each GPU where its links lead to, a GPU's number or TO_SWITCH. */
typedef struct machine {
    uint32_t gpu_count;
    int link[GAL_GPUS_MAX][GAL_NVLINKS_MAX];
    bool has_types;
    unsigned megahertz, pcie_generation;
} machine;

static machine it;

static uint32_t number_of(void *device)
{
    return (uint32_t)((uintptr_t)device - 1);
}

static int get_count(unsigned *count)
{
    *count = it.gpu_count;
    return 0;
}

static int get_handle(unsigned index, void **device)
{
    assert_true(index < it.gpu_count);
    *device = (void *)((uintptr_t)index + 1);
    return 0;
}

static void put_address(uint32_t number, gal_nvml_pci *pci)
{
    pci->bus = 0x10 + number;
    (void)snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
}

static int get_pci(void *device, gal_nvml_pci *pci)
{
    put_address(number_of(device), pci);
    return 0;
}

static int get_state(void *device, unsigned link, int *active)
{
    *active = it.link[number_of(device)][link] != NO_LINK;
    return 0;
}

static int get_remote_type(void *device, unsigned link, int *type)
{
    *type = it.link[number_of(device)][link] == TO_SWITCH ? GAL_NVML_REMOTE_SWITCH : GAL_NVML_REMOTE_GPU;
    return 0;
}

/* A switch has an address of its own. */
static int get_remote_pci(void *device, unsigned link, gal_nvml_pci *pci)
{
    put_address((uint32_t)it.link[number_of(device)][link], pci);
    return 0;
}

static int get_generation(void *device, unsigned *generation)
{
    (void)device;
    *generation = it.pcie_generation;
    return it.pcie_generation > 0 ? 0 : 3; /* NVML_ERROR_NOT_SUPPORTED */
}

static int get_width(void *device, unsigned *lanes)
{
    (void)device;
    *lanes = 16;
    return 0;
}

static int get_clock(void *device, int type, unsigned *megahertz)
{
    assert_int_equal(type, GAL_NVML_CLOCK_SM);
    assert_int_equal(number_of(device), 1);
    *megahertz = it.megahertz;
    return it.megahertz > 0 ? 0 : 3;
}

static gal_nvml double_of_nvml(void)
{
    return (gal_nvml){.get_count = get_count,
                      .get_handle_by_index = get_handle,
                      .get_pci_info = get_pci,
                      .get_nvlink_state = get_state,
                      .get_nvlink_remote_type = it.has_types ? get_remote_type : NULL,
                      .get_nvlink_remote_pci = get_remote_pci,
                      .get_pcie_generation = get_generation,
                      .get_pcie_width = get_width,
                      .get_clock = get_clock,
                      .get_clock_max = get_clock};
}

static void be(uint32_t gpu_count)
{
    it = (machine){.gpu_count = gpu_count, .has_types = true, .megahertz = 1980, .pcie_generation = 5};
    for (uint32_t i = 0; i < GAL_GPUS_MAX; i++) {
        for (uint32_t link = 0; link < GAL_NVLINKS_MAX; link++) {
            it.link[i][link] = NO_LINK;
        }
    }
}

static void join(uint32_t a, uint32_t b, uint32_t links)
{
    for (uint32_t n = 0; n < links; n++) {
        uint32_t at = 0, to = 0;
        while (it.link[a][at] != NO_LINK) {
            at++;
        }
        while (it.link[b][to] != NO_LINK) {
            to++;
        }
        it.link[a][at] = (int)b;
        it.link[b][to] = (int)a;
    }
}

/* As the second GPU sees it. */
static gal_fabric read_fabric(void)
{
    gal_fabric out;
    const gal_nvml nvml = double_of_nvml();
    gal_fabric_read(&nvml, "0000:11:00.0", "", &out);
    return out;
}

static void assert_islands(const gal_fabric *fabric, const uint32_t *expected)
{
    for (uint32_t i = 0; i < fabric->gpu_count; i++) {
        assert_int_equal(fabric->island[i], expected[i]);
    }
}

/* DGX H100: 18 links of every GPU go to switches. */
static void test_switches_join_all(void **state)
{
    (void)state;
    be(8);
    for (uint32_t i = 0; i < 8; i++) {
        for (uint32_t link = 0; link < 18; link++) {
            it.link[i][link] = TO_SWITCH;
        }
    }
    for (int types = 1; types >= 0; types--) { /* an old driver does not say that they are switches */
        it.has_types = types == 1;
        const gal_fabric fabric = read_fabric();
        assert_islands(&fabric, (const uint32_t[]){0, 0, 0, 0, 0, 0, 0, 0});
        assert_int_equal(fabric.own, 1);
        assert_string_equal(fabric.text, "8 GPUs, 1 island of NVLink, 18 links each; PCIe 5.0 x16");
        assert_float_equal(fabric.clock_hertz_max, 1.98e9, 1.0);
    }
}

/* DGX-1 V100: a cube mesh; from every GPU six links, to four others. Two quads, each complete, and one to one between
 * them: what has no link of its own is reached over others. */
static void test_cube_mesh_is_one(void **state)
{
    (void)state;
    static const uint32_t pair[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 1},
                                       {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 1},
                                       {0, 4, 2}, {1, 5, 2}, {2, 6, 2}, {3, 7, 2}};
    be(8);
    for (uint32_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        join(pair[i][0], pair[i][1], pair[i][2]);
    }
    const gal_fabric fabric = read_fabric();
    assert_islands(&fabric, (const uint32_t[]){0, 0, 0, 0, 0, 0, 0, 0});
    assert_int_equal(fabric.link_count[1][2], 2);
    assert_int_equal(fabric.link_count[1][4], 0);
    assert_non_null(strstr(fabric.text, "1 island of NVLink, 6 links each"));
}

/* Four A100 on PCIe, in pairs by bridges of 12 links; ranks of a pair have one key, and so have those of no other
 * machine. */
static void test_bridges_join_pairs(void **state)
{
    (void)state;
    be(4);
    join(0, 1, 12);
    join(2, 3, 12);
    gal_fabric fabric = read_fabric();
    assert_islands(&fabric, (const uint32_t[]){0, 0, 2, 2});
    assert_non_null(strstr(fabric.text, "4 GPUs, 2 islands of NVLink, 12 links each"));
    const uint64_t second = gal_fabric_key(&fabric, 7);
    fabric.own = 0;
    assert_true(gal_fabric_key(&fabric, 7) == second);
    assert_true(gal_fabric_key(&fabric, 8) != second);
    fabric.own = 3;
    assert_true(gal_fabric_key(&fabric, 7) != second);
}

static void test_no_links(void **state)
{
    (void)state;
    be(2);
    it.pcie_generation = it.megahertz = 0; /* not told either */
    const gal_nvml nvml = double_of_nvml();
    const gal_fabric fabric = read_fabric();
    assert_islands(&fabric, (const uint32_t[]){0, 1});
    assert_string_equal(fabric.text, "2 GPUs, no NVLink");
    assert_float_equal(gal_nvml_clock_hertz(&nvml, &fabric), 0.0, 0.0);
}

/* Without NVML, or where it does not know the GPU: every GPU by itself, and the reason is what is said. */
static void test_not_known(void **state)
{
    (void)state;
    gal_fabric one, other;
    be(2);
    gal_fabric_read(NULL, "0000:11:00.0", "no NVML", &one);
    gal_fabric_read(NULL, "0000:12:00.0", "no NVML", &other);
    assert_string_equal(one.text, "no NVML");
    assert_true(gal_fabric_key(&one, 7) != gal_fabric_key(&other, 7));
    assert_true(gal_fabric_key(&one, 7) == gal_fabric_key(&one, 7));
    const gal_nvml nvml = double_of_nvml();
    gal_fabric_read(&nvml, "0000:77:00.0", "", &other);
    assert_int_equal(other.gpu_count, 0);
    assert_string_equal(other.text, "NVML knows no GPU 0000:77:00.0: what joins the GPUs is not known");
    assert_float_equal(gal_nvml_clock_hertz(NULL, &one), 0.0, 0.0);
}

/* Where there is no driver; else it is open, and closes. */
static void test_library(void **state)
{
    (void)state;
    gal_nvml nvml;
    char why[GAL_FABRIC_TEXT_BYTES] = "";
    if (!gal_nvml_open(&nvml, why, sizeof why)) {
        assert_non_null(strstr(why, "what joins the GPUs is not known"));
        assert_null(nvml.library);
    }
    gal_nvml_close(&nvml);
    gal_nvml_close(&nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switches_join_all),  cmocka_unit_test(test_cube_mesh_is_one),
        cmocka_unit_test(test_bridges_join_pairs), cmocka_unit_test(test_no_links),
        cmocka_unit_test(test_not_known),          cmocka_unit_test(test_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
