"""The answers of npu-smi and nvidia-smi are read for every product, and what they do not say stays unsaid."""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path

import pytest

from npulens.collectors.backends.backend import Telemetry
from npulens.collectors.telemetry import npu_smi, nvidia_smi
from npulens.collectors.telemetry.npu_smi import Chip, Process
from npulens.collectors.telemetry.tool_answer import ToolAnswer, ask
from tests import npu_smi_texts as texts

ALL = {name: text for name, text in vars(texts).items() if name.isupper()}


def test_910_93_has_two_chips_to_a_card_and_one_power_for_both() -> None:
    told = npu_smi.info(texts.INFO_910_93)
    assert (told.tool, told.driver, told.complaints) == ("24.1.rc3.7", "24.1.rc3.7", ())
    assert told.chips == (
        Chip(0, 0, "Ascend910", "OK", 0, "0000:9D:00.0", 178.7, 37.0, 0.0, 3419, 65536),
        Chip(0, 1, "Ascend910", "OK", 1, "0000:9F:00.0", None, 36.0, 0.0, 3196, 65536),
        Chip(1, 0, "Ascend910", "OK", 2, "0000:99:00.0", 186.4, 36.0, 0.0, 62449, 65536),
    )
    assert told.processes == (Process(1, 0, 824166, "VLLMWorker_TP", 59316),)


def test_910b_names_the_process_as_host_and_container_count_it() -> None:
    told = npu_smi.info(texts.INFO_910B)
    assert [(c.npu, c.physical, c.health, c.busy_percent) for c in told.chips] == [
        (0, None, "OK", 42),
        (1, None, "Warning", 7),
    ]
    assert told.processes == (Process(0, 0, 485946, "pytest", 5175, 77), Process(0, 0, 485947, "python", 44000))


def test_the_memory_that_counts_is_the_one_the_device_computes_in() -> None:
    assert [(c.memory_used_mb, c.memory_total_mb) for c in npu_smi.info(texts.INFO_910A).chips] == [
        (1365, 32768),
        (4, 32768),
    ]
    assert npu_smi.info(texts.INFO_310P).chips == (
        Chip(6, 0, "310P3", "OK", 0, "0000:84:00.0", None, 50.0, 0.0, 1839, 21525),
        Chip(6, 1, "310P3", "OK", 1, "0000:84:00.0", None, 49.0, 3.0, 1840, 21525),
    )
    assert npu_smi.info(texts.INFO_310B).chips == (Chip(0, 0, "310B1", "OK", 0, None, 10.4, 66.0, 0.0, 957, 10810),)


def test_950_has_its_own_columns() -> None:
    told = npu_smi.info(texts.INFO_950)
    assert told.chips == (Chip(3, 0, "Ascend950DT", "Alarm", None, None, 120.0, 45.0, 20.0, 2048, 131072),)
    assert told.processes == (Process(3, 0, 1001, "python", 256),)


def test_sixteen_devices() -> None:
    told = npu_smi.info(texts.a3(8))
    assert [c.physical for c in told.chips] == list(range(16))
    assert [c.busy_percent for c in told.chips] == list(range(16))
    assert [c.power_w for c in told.chips] == [170.0 + n if n % 2 == 0 else None for n in range(16)]


def test_what_it_says_instead_of_a_table() -> None:
    assert npu_smi.info(texts.BUSY).complaints[1].endswith("because the device is used. ret is -8020")
    assert npu_smi.info(texts.DENIED).complaints[-1] == "dcmi module initialize failed. ret is -8005"
    assert npu_smi.info("") == npu_smi.Info(None, None, (), (), ())


def test_a_table_cut_anywhere_never_invents_a_device() -> None:
    whole = npu_smi.info(texts.INFO_910B)
    for end in range(0, len(texts.INFO_910B), 3):
        told = npu_smi.info(texts.INFO_910B[:end])
        assert told.chips == whole.chips[: len(told.chips)]
        assert told.processes == whole.processes[: len(told.processes)]
    half = texts.INFO_910B[: texts.INFO_910B.index("0000:42")]
    assert npu_smi.info(half).complaints == ("the table is cut off",)


def test_a_column_that_is_missing_is_not_told() -> None:
    without = texts.INFO_910B.replace("Temp(C)", "       ").replace("                 51   ", "                      ")
    chip = npu_smi.info(without).chips[0]
    assert (chip.power_w, chip.temperature_c, chip.memory_used_mb) == (95.1, None, 53984)


def test_any_other_text_is_read_without_an_error() -> None:
    dice = random.Random(5)
    for text in ALL.values():
        for _ in range(60):
            letters = list(text)
            for _ in range(dice.randint(1, 30)):
                letters[dice.randrange(len(letters))] = dice.choice("|+-: \n0a\u82af\ufffd/")
            torn = "".join(letters)
            npu_smi.info(torn), npu_smi.chips(torn), npu_smi.logical(torn), npu_smi.topology(torn)


def test_clock_and_rating_of_every_product() -> None:
    clocks = {
        name: {
            chip: (npu_smi.value(block, "Aicore curFreq(MHZ)"), npu_smi.value(block, "Aicore Freq(MHZ)"))
            for chip, block in npu_smi.chips(ALL[name]).items()
        }
        for name in ("COMMON_910B", "COMMON_310P", "COMMON_950", "COMMON_310B")
    }
    assert clocks == {
        "COMMON_910B": {0: (800, 1800)},
        "COMMON_310P": {0: (960, 1080), 1: (1080, 1080)},
        "COMMON_950": {0: (100, 1650)},
        "COMMON_310B": {0: (None, None)},
    }
    assert npu_smi.chips(texts.COMMON_910B)[0]["Temperature(C)"] == "46"  # the chip's, not its controller's


def test_the_number_of_a_chip_may_follow_its_values() -> None:
    usages = npu_smi.chips(texts.USAGES_910_93)
    assert [usages[chip]["NPU Utilization(%)"] for chip in (0, 1)] == ["65", "58"]
    dense = npu_smi.chips(texts.USAGES_DENSE)
    assert [dense[chip]["Aicore Usage Rate(%)"] for chip in (0, 1)] == ["88", "89"]


def test_board_mapping_and_topology() -> None:
    board = npu_smi.chips(texts.BOARD_910B)[0]
    assert (board["Software Version"], board["Firmware Version"]) == ("25.5.1", "7.8.0.6.201")
    assert npu_smi.logical(texts.MAPPING_310P) == {0: (1, 0), 1: (1, 1), 2: (4, 0), 3: (4, 1)}
    assert npu_smi.topology(texts.TOPOLOGY_910B) == {
        "NPU0": npu_smi.Neighbours({"NPU1": "HCCS", "NPU2": "HCCS"}, "144-167"),
        "NPU1": npu_smi.Neighbours({"NPU0": "HCCS", "NPU2": "HCCS"}, "144-167"),
    }


def program(home: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool of that name, first on PATH."""
    path = home / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")


def test_a_tool_is_asked_in_one_locale_and_its_bytes_need_be_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.GB18030")
    program(tmp_path, "some-smi", "echo $LC_ALL; printf '\\326\\320 1\\n'; echo oops >&2; exit 3\n", monkeypatch)
    asked = ask(["some-smi", "info"])
    assert asked.status == 3 and not asked.answered
    assert asked.text == "C\n\ufffd\ufffd 1\noops\n"


def test_a_tool_that_is_not_there_or_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(["no-such-smi"]).text == "no-such-smi is not on PATH"
    program(tmp_path, "slow-smi", "exec sleep 20\n", monkeypatch)
    asked = ToolAnswer(("slow-smi",), "slow-smi did not answer within 0 s", None)
    assert ask(["slow-smi"], patience_s=0.2) == asked


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1980, 1980, 97, 61, 512.33, 0x0000000000000000\n", Telemetry(1980, 1980, 0.97, 61, 512.33, ())),
        ("345, 1980, 0, 30, 70.10, 0x0000000000000001\n", Telemetry(345, 1980, 0.0, 30, 70.1, ())),
        ("1200, 1980, 99, 88, 700.02, 0x0000000000000024\n",
         Telemetry(1200, 1980, 0.99, 88, 700.02, ("power cap", "heat (software)"))),
        ("210, 2100, [N/A], 41, [Not Supported], [N/A]\n", Telemetry(210, 2100, None, 41, None, None)),
        ("No devices were found\n", Telemetry()),
    ],
)  # fmt: skip
def test_nvidia_smi(line: str, told: Telemetry) -> None:
    assert nvidia_smi.parsed(line) == told


def test_an_older_nvidia_smi_calls_the_reasons_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """
case "$*" in *clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field'; exit 2;; esac
echo "1410, 1410, 50, 60, 300.5, 0x0000000000000008"
"""
    program(tmp_path, "nvidia-smi", script, monkeypatch)
    assert nvidia_smi.telemetry("0") == Telemetry(1410, 1410, 0.5, 60, 300.5, ("hardware slowdown",))
