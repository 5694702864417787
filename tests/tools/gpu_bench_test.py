#!/usr/bin/env python3
"""bench/gpu.sh --quick runs to its end on the first Vulkan device and leaves a line of JSON for each part.

usage: gpu_bench_test.py HELIX      exits 77 where there is no Vulkan device

Of peers there are stand-ins only: a llama-bench that prints made-up figures, and a llama-server that is helix on the CPU.
"""
import contextlib
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import gpu_serve  # noqa: E402

# The form of llama.cpp b4748's `llama-bench -o json`, with what is read of it.
PROGRAM = {"build_commit": "5ca1ab1e", "build_number": 4748, "cpu_info": "a CPU", "gpu_info": "a stand-in", "backends": "CUDA"}
FIGURES = [PROGRAM | {"n_prompt": 4, "n_gen": 0, "avg_ts": 1234.56, "stddev_ts": 7.8, "samples_ts": [1234.56]},
           PROGRAM | {"n_prompt": 0, "n_gen": 4, "avg_ts": 98.76, "stddev_ts": 0.5, "samples_ts": [98.76]}]
LLAMA_BENCH = f"echo loading >&2\ncat <<'END'\n{json.dumps(FIGURES)}\nEND\n"
LLAMA_SERVER = """if [ "$1" = --version ]; then echo "version: 4748 (stand-in)" >&2; exit; fi
while [ $# -gt 1 ]; do
    case $1 in -m) model=$2 ;; --port) port=$2 ;; esac
    shift
done
exec '{helix}' serve --model "$model" --listen "127.0.0.1:$port" --device cpu
"""


def script(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)
    return path


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="\n", flush=True)
    return done


def lines_of(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def test_whole(helix, folder):
    """All sections, with both stand-ins."""
    done = run(ROOT / "bench/gpu.sh", "--quick", "--helix", helix, "--out", folder, "--seed", "11", "--like", "T4",
               "--llama-bench", script(folder, "llama-bench-stand-in", LLAMA_BENCH),
               "--llama-server", script(folder, "llama-server-stand-in", LLAMA_SERVER.format(helix=helix)))
    assert done.returncode == 0, done.returncode
    assert "skipped" not in done.stdout and "failed:" not in done.stdout
    proof, speed, served, peers = lines_of(pathlib.Path(folder) / "results.jsonl")
    assert proof["kind"] == "proof" and proof["proven"] and proof["seed"] == 11, proof
    assert speed["kind"] == "speed" and speed["skipped"] == [] and speed["like"]["type"] == "T4", speed
    assert len({kernel["kernel"] for kernel in speed["kernels"]}) == 15
    assert served["kind"] == "served" and served["device"] == "vulkan:0", served
    assert served["skipped"] == [] and "error" not in served, served
    model, = served["models"]
    assert model["same_answers"] == 2, model
    check_runs(model["runs"], done.stdout)
    assert peers["kind"] == "peers" and peers["failed"] == [] and peers["skipped"] == [], peers
    assert peers["llama_bench"] == [{"model": "tiny q8_0", "build": "4748 (5ca1ab1e)", "backends": "CUDA",
                                     "on": "a stand-in", "prompt": {"tokens_per_s": 1234.56, "deviation": 7.8},
                                     "answer": {"tokens_per_s": 98.76, "deviation": 0.5}}], peers
    assert "| llama-bench, build 4748 (5ca1ab1e), CUDA, a stand-in | 1234.6 ± 7.8 | 98.8 ± 0.5 |" in done.stdout
    server, = peers["llama_server"]
    assert server["build"] == "4748 (stand-in)", server
    check_runs(server["runs"], done.stdout)


def check_runs(runs, printed):
    """With 1 and with 64 streams, all answered whole; the rows stand in what was printed."""
    assert [(row["streams"], row["requests"]) for row in runs] == [(1, 2), (64, 64)], runs
    for row in runs:
        assert row["failed"] == row["wrong_length"] == 0 and row["errors"] == {}, row
        assert 0 < row["ttft_p50_s"] <= row["ttft_p99_s"] and row["tokens_per_s"] > 0, row
        assert f"| {row['streams']} | {row['requests']} | {1e3 * row['ttft_p50_s']:.1f} ms |" in printed, row


def test_unproven(helix):
    """A proof that fails ends it: here of a device that is not there."""
    done = run(ROOT / "bench/gpu.sh", "--quick", "--helix", helix, "--device", "vulkan:99")
    assert done.returncode == 1 and "no Vulkan device '99'" in done.stderr
    assert "Ceilings" not in done.stdout


def test_no_program(helix):
    for option in ("--llama-bench", "--llama-server"):
        done = run(ROOT / "bench/gpu.sh", "--quick", "--helix", helix, option, "/not/there")
        assert done.returncode == 2 and done.stderr == f"{option}: /not/there is no program\n"


def test_failing_peers(helix, folder):
    """Each is said with its error, and ends nothing."""
    def peers(*options):
        record = pathlib.Path(folder) / "failing.jsonl"
        record.unlink(missing_ok=True)
        done = run(sys.executable, ROOT / "bench/gpu_peers.py", "--helix", helix, "--quick", "--device", "cpu",
                   "--record", record, *options)
        assert done.returncode == 0, done.returncode
        line, = lines_of(record)
        assert line["llama_bench"] == [] and all(found["runs"] == [] for found in line["llama_server"]), line
        return done.stdout, line
    printed, line = peers("--llama-bench", script(folder, "llama-bench-stand-in", "echo no such card >&2\nexit 3\n"),
                          "--llama-server", script(folder, "llama-server-stand-in", "echo no memory >&2\nexit 4\n"))
    assert "failed: tiny q8_0, llama-bench: exit code 3\nno such card" in printed
    assert "failed: tiny q8_0, llama-server, " in printed and "ended with exit code 4" in printed and "no memory" in printed
    assert len(line["failed"]) == 2, line
    printed, line = peers("--llama-bench", script(folder, "llama-bench-stand-in", "echo '| a table |'\n"))
    assert "failed: tiny q8_0, llama-bench: its JSON cannot be read" in printed and "| a table |" in printed
    assert "no llama-server: --llama-server FILE" in printed
    printed, line = peers("--seconds", "0.5", "--llama-bench", script(folder, "llama-bench-stand-in", "exit 3\n"))
    assert line["failed"] == [] and "no time left" in line["skipped"][0], line
    printed, line = peers()
    assert "no llama-bench: --llama-bench FILE" in printed and line["failed"] == line["skipped"] == [], line


def serve(helix, *options):
    return [sys.executable, str(ROOT / "bench/gpu_serve.py"), "--helix", helix, "--quick", *options]


def test_not_served(helix):
    done = run(*serve(helix, "--device", "vulkan:99"))
    assert done.returncode == 1 and "ended with exit code 1" in done.stderr
    assert "no Vulkan device '99'" in done.stderr
    done = run(*serve(helix, "--model", "tiny"))
    assert done.returncode == 2 and "'tiny' is no SHAPE:QUANT" in done.stderr
    done = run(*serve(helix, "--seconds", "0.5", "--model", "tiny:q4_0"))
    assert done.returncode == 0 and done.stdout.startswith("skipped: tiny q4_0, ")
    done = run(*serve(helix, "--seconds", "0.5"))
    assert done.returncode == 0 and done.stdout.startswith("skipped: tiny q8_0, ") and "no time left" in done.stdout


def children(pid):
    with contextlib.suppress(OSError):
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def serving(pid):
    with contextlib.suppress(OSError):
        return b"\0serve\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_stopped(helix):
    """Stopped in the middle, it leaves no server behind."""
    process = subprocess.Popen(serve(helix), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    servers = []
    while not servers and time.monotonic() < end:
        assert process.poll() is None, "it ended before it served"
        servers = [child for child in children(process.pid) if serving(child)]
        time.sleep(0.02)
    process.terminate()
    process.wait(60)
    assert servers and not serving(servers[0]), servers


class Forgetful(http.server.BaseHTTPRequestHandler):
    """A server whose answers depend on how many it gave."""
    given = 0

    def log_message(self, *_):
        pass

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.reply("application/json", json.dumps({"data": [{"meta": {"n_vocab": 512}}]}))

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Forgetful.given += 1
        choice = {"index": 0, "text": f"{min(Forgetful.given, 3)}", "finish_reason": "length"}
        self.reply("text/event-stream", f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n")


def test_time():
    """64 streams send less, or nothing, where the answers at once, a quarter as long, say that more would not end in time."""
    def rounds(left_s):
        return gpu_serve.rounds_in_time(gpu_serve.FULL, 10.0, gpu_serve.Deadline(left_s))
    assert rounds(200) == 2 and rounds(70) == 1
    try:
        rounds(30)
        raise AssertionError("no time was found to be enough")
    except gpu_serve.NoTime as missed:
        assert str(missed) == "64 streams: up to 40 s needed, 30 s left", missed


class ManyAtOnce(http.server.ThreadingHTTPServer):
    request_queue_size = 128


def test_other_answers():
    """Answers that are not the same alone and among others are an error that shows both."""
    with ManyAtOnce(("127.0.0.1", 0), Forgetful) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            gpu_serve.check(server.server_port, gpu_serve.QUICK, 1, gpu_serve.Deadline(30))
            raise AssertionError("other answers passed for the same")
        except gpu_serve.Failed as error:
            assert "answer 0 is {0: ('1', 'length')} alone and {0: ('3', 'length')} among 64" in str(error), error
        finally:
            server.shutdown()


def main():
    helix = sys.argv[1]
    listed = json.loads(subprocess.run([helix, "devices", "--json"], check=True, capture_output=True).stdout)
    if "no_vulkan" in listed:
        print("skipped:", listed["no_vulkan"])
        return 77
    with tempfile.TemporaryDirectory() as folder:
        test_whole(helix, folder)
        test_failing_peers(helix, folder)
    test_unproven(helix)
    test_no_program(helix)
    test_not_served(helix)
    test_stopped(helix)
    test_other_answers()
    test_time()
    return 0


if __name__ == "__main__":
    sys.exit(main())
