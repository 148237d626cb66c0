"""What `livedbg doctor` says of IREE: versions that match, Vulkan's files, clocks and load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from livedbg.adapters.iree.checks import (
    Driver,
    age,
    checks,
    clocks,
    devices,
    devices_told,
    drivers,
    layers,
    load,
    vulkan,
    wheels,
)
from livedbg.model.errors import LivedbgError


def _manifest(path: Path, library: str) -> Path:
    path.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": library}}))
    return path


@pytest.mark.parametrize(
    ("found", "there", "good", "value"),
    [
        ({}, False, True, "no IREE on this host"),
        ({}, True, True, "its programs are in PATH; no wheels beside livedbg"),
        ({"iree-base-compiler": "3.13.0", "iree-base-runtime": "3.13.0"}, True, True, "compiler 3.13.0, runtime"),
        (
            {"iree-base-compiler": "3.13.0", "iree-base-runtime": "3.12.1"}, True, False,
            "compiler 3.13.0, runtime 3.12.1: they differ",
        ),
        ({"iree-base-runtime": "3.13.0"}, True, False, "compiler missing, runtime 3.13.0"),
        ({"iree-compiler": "20240828.9", "iree-runtime": "20240828.9"}, True, True, "compiler 20240828.9, runtime"),
    ],
)  # fmt: skip
def test_compiler_and_runtime_have_to_match(found: dict[str, str], there: bool, good: bool, value: str) -> None:
    said = wheels(found, there)
    assert (said.ok, bool(said.remedy)) == (good, not good)
    assert said.value.startswith(value)


def test_drivers_are_those_that_the_environment_names(tmp_path: Path) -> None:
    good, bad = _manifest(tmp_path / "good.json", "libc.so.6"), _manifest(tmp_path / "bad.json", "libnone.so.1")
    (tmp_path / "broken.json").write_text("{")
    relative = _manifest(tmp_path / "relative.json", "./none.so")
    named = f"{good}:{bad}:{tmp_path / 'broken.json'}:{relative}:{tmp_path / 'missing.json'}"
    expected = [("good", True), ("bad", False), ("relative", False)]
    assert [(one.name, one.library) for one in drivers({"VK_ICD_FILENAMES": named})] == expected
    (one,) = drivers({"VK_DRIVER_FILES": str(good), "VK_ICD_FILENAMES": str(bad)})
    assert (one.name, one.library, one.changed_s) == ("good", True, good.stat().st_ctime)
    assert {one.name for one in drivers({"VK_DRIVER_FILES": str(tmp_path)})} == {"good", "bad", "relative"}


def test_layers_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "layer.json").write_text(json.dumps({"layer": {"name": "VK_LAYER_KHRONOS_validation"}}))
    assert layers({"VK_LAYER_PATH": str(tmp_path)}) == {"VK_LAYER_KHRONOS_validation"}


def test_without_a_driver_vulkan_is_missing_only_where_iree_is(tmp_path: Path) -> None:
    environment = {"VK_DRIVER_FILES": str(tmp_path / "none.json"), "VK_LAYER_PATH": str(tmp_path)}
    assert vulkan(environment, False).ok
    said = vulkan(environment, True)
    assert not said.ok and said.remedy.startswith("apt-get install")


def test_clocks_where_the_kernel_tells_them(tmp_path: Path) -> None:
    assert clocks(tmp_path).value == "not readable here"
    governor = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    level = tmp_path / "sys/class/drm/card1/device/power_dpm_force_performance_level"
    for path, text in ((governor, "powersave\n"), (level, "auto\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert clocks(tmp_path).value == "CPU governor powersave, card1 performance level auto"


def test_a_busy_host_is_told() -> None:
    assert load(3.0, 2).ok
    said = load(3.1, 2)
    assert not said.ok and said.value == "3.1 runnable tasks on 2 cores" and "time-outs" in said.remedy


def test_a_layer_that_the_loader_would_ignore_is_told(tmp_path: Path) -> None:
    (tmp_path / "layer.json").write_text(json.dumps({"layer": {"name": "VK_LAYER_KHRONOS_validation"}}))
    driver = _manifest(tmp_path / "good.icd", "libc.so.6")
    here = {"VK_LAYER_PATH": str(tmp_path), "VK_DRIVER_FILES": str(driver)}
    asked = vulkan({**here, "VK_INSTANCE_LAYERS": "VK_LAYER_LUNARG_standard_validation"}, True)
    if "libvulkan" not in asked.value:
        assert (
            not asked.ok and "names VK_LAYER_LUNARG_standard_validation, which the loader does not find" in asked.value
        )
        assert vulkan({**here, "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"}, True).ok


def test_a_driver_without_a_device_is_told() -> None:
    def none() -> str:
        raise LivedbgError("The driver vulkan has no device on this host.", "", "no-device")

    assert devices(lambda: "llvmpipe").value == "llvmpipe"
    said = devices(none)
    assert not said.ok and said.value == "The driver vulkan has no device on this host." and said.remedy


def test_devices_with_their_driver_and_the_features_that_they_lack() -> None:
    dumped = (
        "# Enumerated devices for driver 'vulkan'\nname: llvmpipe\npath: GPU-6d\napi: 1.3.230\ndriver: llvmpipe\n"
        "driver_info: Mesa 22.3.6\nfeatures: timelineSemaphore=yes cooperativeMatrix=no\nname: other\n"
    )
    assert [*devices_told(dumped)] == ["llvmpipe, Vulkan 1.3.230, Mesa 22.3.6, without cooperativeMatrix", "other"]
    assert [*devices_told("# --device=vulkan://GPU-6d\n#   llvmpipe\n")] == []


def test_when_it_was_booted_and_a_driver_changed() -> None:
    old, new = Driver("old", True, 1000.0), Driver("new", True, 90_000.0)
    assert age([old], "7300.12 1.0", 100_000.0).value == (
        "booted 2 hours ago; newest Vulkan driver: old, changed 28 hours ago"
    )
    assert age([old, new], "50000 1.0", 100_000.0).value.endswith(
        "newest Vulkan driver: new, changed 3 hours ago, after that"
    )
    assert age([], "30 1.0", 100_000.0).value == "booted a minute ago"


def test_all_checks_of_this_host_have_a_value() -> None:
    found = checks()
    assert len(found) >= 5 and all(one.value for one in found)
