"""What npu-smi printed on machines of several products, as people and manuals recorded it; serial numbers changed.

Each text says where it was found; values are the recorded ones. ``a3`` fills the layout of npu-smi's own source
(github.com/Ascend/driver, print_card_total_info_with_HBM) with numbers that tell the chips apart.
"""

from __future__ import annotations

# A container image's release check of vllm-ascend (github.com/vllm-project/vllm-ascend, bug reports): Atlas 900 A3.
INFO_910_93 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc3.7               Version: 24.1.rc3.7                                           |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 178.7       37                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3419 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           36                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          3196 / 65536         |
+===========================+===============+====================================================+
| 1     Ascend910           | OK            | 186.4       36                0    / 0             |
| 0     2                   | 0000:99:00.0  | 0           0    / 0          62449/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
| 1       0                 | 824166        | VLLMWorker_TP            | 59316                   |
+===========================+===============+====================================================+
"""

# Bug reports of serving projects on Atlas 800T A2: the table is wider and names the process of the container.
INFO_910B = """\
+--------------------------------------------------------------------------------------------------------------------+
| npu-smi 25.5.1                                   Version: 25.5.1                                                   |
+---------------------------+---------------+------------------------------------------------------------------------+
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)     |
| Chip                      | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)             |
+===========================+===============+========================================================================+
| 0     910B3               | OK            | 95.1                 51                      0    / 0                  |
| 0                         | 0000:42:00.0  | 42                   0    / 0                53984/ 65536              |
+===========================+===============+========================================================================+
| 1     910B3               | Warning       | 96.9                 36                      0    / 0                  |
| 0                         | 0000:C2:00.0  | 7                    0    / 0                3403 / 65536              |
+===========================+===============+========================================================================+
+---------------------------+---------------+------------------------------------------------------------------------+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container   |
+===========================+===============+========================================================================+
| 0       0                 | 485946        | pytest             | 5175                  | 77                        |
| 0       0                 | 485947        | python             | 44000                 | NA                        |
+===========================+===============+========================================================================+
| No running processes found in NPU 1                                                                                |
+===========================+===============+========================================================================+
"""

# A project that ports operators to the first 910 (driver 24.1.0): it has memory of both kinds.
INFO_910A = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0                   Version: 24.1.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B                | OK            | 70.0        34                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           1197 / 13553      1365 / 32768         |
+===========================+===============+====================================================+
| 1     910B                | OK            | 66.9        34                0    / 0             |
| 0                         | 0000:81:00.0  | 0           2411 / 15665      4    / 32768         |
+===========================+===============+====================================================+
"""

# Installation notes of Atlas 300I cards (driver 25.3.rc1): no HBM, and no power of its own.
INFO_310P = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 25.3.rc1                                 Version: 25.3.rc1                                     |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 6       310P3                 | OK              | NA           50                0     / 0             |
| 0       0                     | 0000:84:00.0    | 0            1839 / 21525                            |
+-------------------------------+-----------------+------------------------------------------------------+
| 6       310P3                 | OK              | NA           49                0     / 0             |
| 1       1                     | 0000:84:00.0    | 3            1840 / 21525                            |
+===============================+=================+======================================================+
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |
+===============================+=================+======================================================+
| No running processes found in NPU 6                                                                    |
+===============================+=================+======================================================+
"""

# The manual of Atlas 200I A2 (hiascend.com, npu-smi 25.2.0): one device without a bus.
INFO_310B = """\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 25.2.0                                       Version: 25.2.0                                   |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 0       310B1                 | OK              | 10.4          66                15    / 15           |
| 0       0                     | NA              | 0            957   / 10810                           |
+===============================+=================+======================================================+
"""

# The layout of the 950 in npu-smi's own source: a cell of its own for the name, and no chip below the card.
INFO_950 = """\
+-------------------------------------------------------------------------------------------------+
| npu-smi 26.0.rc1                                 Version: 26.0.rc1                              |
+--------+------------------+---------------+-----------------------------------------------------+
| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |
+========+==================+===============+=====================================================+
| 3      | Ascend950DT      | Alarm         | 120.0       45                0     / 0             |
|        |                  | NA            | 20          0    / 0          2048  / 131072        |
+========+==================+===============+=====================================================+
+---------------------------+---------------+-----------------------------------------------------+
| NPU ID                    | Process id    | Process name             | Process memory(MB)       |
+===========================+===============+=====================================================+
| 3                         | 1001          | python                   | 256                      |
+===========================+===============+=====================================================+
"""

# What it says instead, in reports of containers (-8020: another one holds the device; -8005: no right to open it).
BUSY = """\
DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)
dcmi model initialized failed, because the device is used. ret is -8020
"""
DENIED = """\
DrvMngGetConsoleLogLevel failed. (ret=4)
dcmi module initialize failed. ret is -8005
"""

# A report on CPU binding, 910B3 of an Atlas 800T A2: the controller beside the chip has a temperature too.
COMMON_910B = """\
        NPU ID                         : 1
        Chip Count                     : 1

        Chip ID                        : 0
        Memory Usage Rate(%)           : 0
        HBM Usage Rate(%)              : 4
        Aicore Usage Rate(%)           : 0
        Aicore Freq(MHZ)               : 1800
        Aicore curFreq(MHZ)            : 800
        Aicore Count                   : 24
        Temperature(C)                 : 46
        NPU Real-time Power(W)         : 93.4

        Chip Name                      : mcu
        Temperature(C)                 : 38
"""

# A test of gpustack (github.com/gpustack/gpustack): Atlas 300I Duo, two chips of one card.
COMMON_310P = """\
NPU ID                         : 1
Chip Count                     : 2

Chip ID                        : 0
Memory Usage Rate(%)           : 3
Aicore Usage Rate(%)           : 0
Aicore Freq(MHZ)               : 1080
Aicore curFreq(MHZ)            : 960
Temperature(C)                 : 60

Chip ID                        : 1
Memory Usage Rate(%)           : 3
Aicore Usage Rate(%)           : 71
Aicore Freq(MHZ)               : 1080
Aicore curFreq(MHZ)            : 1080
Temperature(C)                 : 59

Chip Name                      : mcu
Temperature(C)                 : 48
NPU Real-time Power(W)         : 45.2
"""

# The manual of the 950 (gitcode.com/cann): neither chip nor blank line.
COMMON_950 = """\
NPU ID                         : 0
Memory Usage Rate(%)           : 0
HBM Usage Rate(%)              : 3
Aicore Usage Rate(%)           : 0
Aicore Freq(MHZ)               : 1650
Aicore curFreq(MHZ)            : 100
Aicore Count                   : 32
Temperature(C)                 : 65
NPU Real-time Power(W)         : 298.6
"""

# The manual of Atlas 200I A2: no clock at all.
COMMON_310B = """\
        NPU ID                         : 0
        Chip Count                     : 1

        Chip ID                        : 0
        Memory Usage Rate(%)           : 44
        Aicore Usage Rate(%)           : 0
        Temperature(C)                 : 38
        Rated Power Dissipation(W)     : 4.0

        Chip Name                      : MCU
        Temperature(C)                 : 36
        Power Dissipation(W)           : 13.3
"""

# A test of a resource scheduler on Atlas 900 A3: here the number of the chip ends its block.
USAGES_910_93 = """\
\tNPU ID                         : 0
\tChip Count                     : 2

\tDDR Capacity(MB)               : 0
\tHBM Capacity(MB)               : 65536
\tHBM Usage Rate(%)              : 16
\tAicore Usage Rate(%)           : 2
\tNPU Utilization(%)             : 65
\tChip ID                        : 0

\tHBM Capacity(MB)               : 65536
\tHBM Usage Rate(%)              : 16
\tAicore Usage Rate(%)           : 12
\tNPU Utilization(%)             : 58
\tChip ID                        : 1
"""

# The same without blank lines, from a parser's test.
USAGES_DENSE = """\
    NPU ID                         : 7
    Chip Count                     : 2
    HBM Usage Rate(%)              : 21
    Aicore Usage Rate(%)           : 88
    Chip ID                        : 0
    HBM Usage Rate(%)              : 22
    Aicore Usage Rate(%)           : 89
    Chip ID                        : 1
"""

# telegraf's test of its NPU input (github.com/influxdata/telegraf).
BOARD_910B = """\
        NPU ID                         : 0
        Product Name                   : IT21HMDC_Bin5
        Model                          : NA
        Manufacturer                   : Huawei
        Serial Number                  : 1025C9000000
        Software Version               : 25.5.1
        Firmware Version               : 7.8.0.6.201
        Compatibility                  : OK
        Board ID                       : 0x60
        PCB ID                         : A
        PCIe Bus Info                  : 0000:C1:00.0
        Slot ID                        : 0
        Chip Count                     : 1
"""

# gpustack's test: two cards of Atlas 300I Duo and their controllers.
MAPPING_310P = """\
NPU ID                         Chip ID                        Chip Logic ID                  Chip Name
1                              0                              0                              Ascend 310P3
1                              1                              1                              Ascend 310P3
1                              2                              -                              Mcu
4                              0                              2                              Ascend 310P3
4                              1                              3                              Ascend 310P3
4                              2                              -                              Mcu
"""

# The documentation of ms-swift, Atlas 800T A2; the last row is cut as it is there.
TOPOLOGY_910B = """\
\t   NPU0       NPU1       NPU2       CPU Affinity
NPU0       X          HCCS       HCCS       144-167
NPU1       HCCS       X          HCCS       144-167
NPU2       HCCS       HCCS
"""


def a3(cards: int) -> str:
    """An Atlas 900 A3 of so many cards with two chips each; chip n runs at n percent."""
    lines = INFO_910_93.splitlines()[:6]
    for card in range(cards):
        for chip in range(2):
            n = 2 * card + chip
            power = f"{170 + n:.1f}" if chip == 0 else "-"
            lines.append(
                f"| {card:<5d} {'Ascend910':<20s}| {'OK':<13s} | {power:<11s} {30 + n:<17d} 0    / 0             |"
            )
            lines.append(
                f"| {chip:<5d} {n:<20d}| 0000:{n:02X}:00.0  | {n:<11d} 0    / 0          {n:<5d}/ 65536         |"
            )
            lines.append("+" + "=" * 96 + "+")
    return "\n".join(lines) + "\n"
