#!/usr/bin/env python3
"""bench/gpu.sh --quick runs to its end on the first Vulkan device, and leaves a line of JSON for each part.

usage: gpu_bench_test.py HELIX      exits 77 where there is no Vulkan device
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    helix = sys.argv[1]
    listed = json.loads(subprocess.run([helix, "devices", "--json"], check=True, capture_output=True).stdout)
    if "no_vulkan" in listed:
        print("skipped:", listed["no_vulkan"])
        return 77
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([ROOT / "bench/gpu.sh", "--quick", "--helix", helix, "--out", folder, "--seed", "11",
                              "--like", "T4"], capture_output=True, text=True)
        print(run.stdout, run.stderr, sep="\n")
        assert run.returncode == 0, run.returncode
        assert "skipped" not in run.stdout
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "results.jsonl").read_text().splitlines()]
    proof, speed = lines
    assert proof["kind"] == "proof" and proof["proven"] and proof["seed"] == 11, proof
    assert speed["kind"] == "speed" and speed["skipped"] == [] and speed["like"]["type"] == "T4", speed
    assert len({kernel["kernel"] for kernel in speed["kernels"]}) == 15

    # A proof that fails ends it: here of a device that is not there.
    run = subprocess.run([ROOT / "bench/gpu.sh", "--quick", "--helix", helix, "--device", "vulkan:99"],
                         capture_output=True, text=True)
    assert run.returncode == 1 and "no Vulkan device '99'" in run.stderr, run
    assert "Ceilings" not in run.stdout, run.stdout
    return 0


if __name__ == "__main__":
    sys.exit(main())
