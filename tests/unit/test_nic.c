/* The nearest network adapter, in a machine that was written by hand as hwloc writes it: two processors; behind a
 * switch of the first a GPU and mlx5_0, beside it a GPU; on the second one GPU, and mlx5_1 of its own root port; and
 * Ethernet on the first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/nic.h"

#define PACKAGE(number, set, inside)                                                                                   \
    "<object type=\"Package\" os_index=\"" number "\" cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" set   \
    "\" complete_nodeset=\"" set "\" gp_index=\"1" number "\">"                                                        \
    "<object type=\"NUMANode\" os_index=\"" number "\" cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" set  \
    "\" complete_nodeset=\"" set "\" gp_index=\"2" number "\" local_memory=\"1024\"/>"                                 \
    "<object type=\"PU\" os_index=\"" number "\" cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" set        \
    "\" complete_nodeset=\"" set "\" gp_index=\"3" number "\"/>" inside "</object>"
#define HOST_BRIDGE(number, buses, inside)                                                                             \
    "<object type=\"Bridge\" gp_index=\"4" number "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" buses       \
    "]\">" inside "</object>"
#define PORT(number, bus, buses, depth, inside)                                                                        \
    "<object type=\"Bridge\" gp_index=\"5" number "\" bridge_type=\"1-1\" depth=\"" depth                              \
    "\" bridge_pci=\"0000:[" buses "]\" pci_busid=\"0000:" bus                                                         \
    ":01.0\" pci_type=\"0604 [8086:347a] [0000:0000] 00\" pci_link_speed=\"0.0\">" inside "</object>"
#define GPU(number, bus)                                                                                               \
    "<object type=\"PCIDev\" gp_index=\"6" number "\" pci_busid=\"0000:" bus                                           \
    ":00.0\" pci_type=\"0302 [10de:2330] [0000:0000] a1\" pci_link_speed=\"63.0\"/>"
#define ADAPTER(number, bus, name, type)                                                                               \
    "<object type=\"PCIDev\" gp_index=\"7" number "\" pci_busid=\"0000:" bus                                           \
    ":00.0\" pci_type=\"0207 [15b3:1021] [0000:0000] 00\" pci_link_speed=\"63.0\"><object type=\"OSDev\" "             \
    "gp_index=\"8" number "\" name=\"" name "\" osdev_type=\"" type "\"/></object>"

static const char machine[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" "
    "nodeset=\"0x3\" complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">" //
    PACKAGE("0", "0x1",
            HOST_BRIDGE("0", "00-3f",
                        PORT("0", "00", "1a-1c", "1", GPU("0", "1b") ADAPTER("0", "1c", "mlx5_0", "3"))
                            PORT("1", "00", "20-21", "1", GPU("1", "21")) ADAPTER("1", "05", "eth0", "2"))) //
    PACKAGE("1", "0x2",
            HOST_BRIDGE("1", "80-bf",
                        PORT("2", "80", "81-82", "1", GPU("2", "81"))
                            PORT("3", "80", "90-91", "1", ADAPTER("2", "91", "mlx5_1", "3")))) //
    "</object></topology>";

static hwloc_topology_t load(const char *xml)
{
    hwloc_topology_t topology;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_xmlbuffer(topology, xml, (int)strlen(xml) + 1), 0);
    assert_int_equal(hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    return topology;
}

static void assert_nearest(hwloc_topology_t topology, const char *bus_id, gal_nic_distance distance, const char *said)
{
    gal_nic nic;
    char text[GAL_NAME_BYTES];
    gal_nic_nearest(topology, bus_id, &nic);
    assert_int_equal(nic.distance, distance);
    gal_nic_describe(&nic, text, sizeof text);
    assert_string_equal(text, said);
}

static void test_nearest(void **state)
{
    (void)state;
    hwloc_topology_t topology = load(machine);
    assert_nearest(topology, "0000:1b:00.0", GAL_NIC_SAME_SWITCH, "mlx5_0 behind the same PCIe switch");
    assert_nearest(topology, "0000:21:00.0", GAL_NIC_SAME_PACKAGE, "mlx5_0 on the same processor");
    assert_nearest(topology, "0000:81:00.0", GAL_NIC_SAME_PACKAGE, "mlx5_1 on the same processor");
    assert_nearest(topology, "0000:77:00.0", GAL_NIC_NONE, "no network adapter on PCI");
    hwloc_topology_destroy(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
