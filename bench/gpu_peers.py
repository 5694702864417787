#!/usr/bin/env python3
"""llama.cpp on the same card and the same files, beside what bench/gpu_serve.py measured.

usage: bench/gpu_peers.py --helix FILE [--llama-bench FILE] [--llama-server FILE] [the options of bench/gpu_serve.py]

llama-bench measures prompts and answers without HTTP. llama-server has 64 slots and gets the load that `helix serve` got, of
XX"""
import json
import os
import re
import subprocess
import tempfile

import gpu_serve
from gpu_serve import Failed, NoTime, STREAMS
from served import Served


def served_runs(record_file):
    """What bench/gpu_serve.py measured: the rows of each model by its name."""
    if not record_file or not os.path.exists(record_file):
        return {}
    with open(record_file, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {model["model"]: model["runs"] for line in lines if line["kind"] == "served" for model in line["models"]}


def layers_on_card(args):
    return "0" if args.device == "cpu" else "99"


def run_llama_bench(args, path, load, deadline):
    """Its figures: tokens/s and their deviation of a prompt, and of an answer; and what it is."""
    text = gpu_serve.run_program(
        [args.llama_bench, "-m", path, "-p", str(load.prompt_tokens), "-n", str(load.output_tokens),
         "-ngl", layers_on_card(args), "-r", "1" if args.quick else "3", "-o", "json"], "llama-bench", deadline)
    try:
        rows = json.loads(text)
        tests = {"prompt" if row["n_gen"] == 0 else "answer":
                 {"tokens_per_s": float(row["avg_ts"]), "deviation": float(row["stddev_ts"])} for row in rows}
        first = rows[0]
        return {"build": f"{first['build_number']} ({first['build_commit']})", "backends": first["backends"],
                "on": first["gpu_info"] or first["cpu_info"], "prompt": tests["prompt"], "answer": tests["answer"]}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Failed(f"llama-bench: its JSON cannot be read ({error!r}): {text.strip()[:300]}") from None


def bench_rows(name, found, ours, load):
    rows = [f"\n| {name} | prompt of {load.prompt_tokens}, tokens/s | answer of {load.output_tokens}, tokens/s |",
            "|---|---|---|",
            f"| llama-bench, build {found['build']}, {found['backends']}, {found['on']} "
            f"| {found['prompt']['tokens_per_s']:.1f} ± {found['prompt']['deviation']:.1f} "
            f"| {found['answer']['tokens_per_s']:.1f} ± {found['answer']['deviation']:.1f} |"]
    alone = [run for run in ours if run["streams"] == 1]
    if alone:
        answer = alone[0]["stream_tokens_per_s"]
        rows.append(f"| helix serve over HTTP, one stream | {load.prompt_tokens / alone[0]['ttft_p50_s']:.1f}, "
                    f"until the first token | {'-' if answer is None else f'{answer:.1f}'} |")
    return "\n".join(rows)


def llama_server_build(program, deadline):
    """From what --version says: 'version: 4748 (c392e509)'."""
    try:
        said = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=deadline.left("--version"))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"--version: {error}") from None
    found = re.search(r"version: (.+)", said.stdout + said.stderr)
    return found.group(1) if found else "unknown"


def run_llama_server(args, path, load, deadline, found):
    """Fills found with its rows, and yields each."""
    slot = (load.prompt_tokens + load.output_tokens) // 256 * 256 + 256
    with tempfile.TemporaryDirectory(prefix="helix-peer-") as folder:
        server = Served(os.path.join(folder, "server.log"))
        try:
            found["build"] = llama_server_build(args.llama_server, deadline)
            server.start([args.llama_server, "-m", path, "--host", "127.0.0.1", "--port", str(server.port),
                          "-np", str(STREAMS), "-c", str(STREAMS * slot), "-ngl", layers_on_card(args)])
            gpu_serve.wait(server, "/health", "/health", deadline)
            bodies = gpu_serve.make_bodies(server.port, load, args.seed)
            _, together_s = gpu_serve.together(server.port, bodies, deadline)
            for row in gpu_serve.measure_all(args.helix, server.port, load, together_s, args.seed, deadline):
                found["runs"].append(row)
                yield row
        except (Failed, OSError) as error:
            raise Failed(f"llama-server, {error}\nit printed:\n{server.printed()}".strip()) from None
        except NoTime as missed:
            raise NoTime(f"llama-server, {missed}") from None
        finally:
            server.stop()


def compare_server(args, model, path, load, ours, deadline, record):
    found = {"model": " ".join(model), "runs": []}
    record["llama_server"].append(found)
    shown = False
    for row in run_llama_server(args, path, load, deadline, found):
        if not shown:
            print("\n" + gpu_serve.HEAD.format(" ".join(model)))
            shown = True
        for our in ours:
            if our["streams"] == row["streams"]:
                print(gpu_serve.row_text("helix serve", our))
        print(gpu_serve.row_text(f"llama-server, build {found['build']}", row), flush=True)
        for kind, error in row["errors"].items():
            print(f"\nllama-server, {error['count']} times {kind}: {error['example']}")


def compare_bench(args, model, path, load, ours, deadline, record):
    found = run_llama_bench(args, path, load, deadline)
    record["llama_bench"].append({"model": " ".join(model)} | found)
    print(bench_rows(" ".join(model), found, ours, load), flush=True)


def compare(args, load, deadline, record):
    """Each model with each program; what fails or has no time is said and kept."""
    programs = [compare_bench] if args.llama_bench else []
    programs += [compare_server] if args.llama_server else []
    runs = served_runs(args.record)
    for model in load.models:
        name = " ".join(model)
        for program in programs:
            try:
                path = gpu_serve.make_model(args.helix, model, args.models, deadline)
                program(args, model, path, load, runs.get(name, []), deadline, record)
            except Failed as error:
                record["failed"].append(f"{name}, {error}")
                print(f"\nfailed: {record['failed'][-1]}", flush=True)
            except NoTime as missed:
                record["skipped"].append(f"{name}, {missed}")
                print(f"\nskipped: {record['skipped'][-1]}", flush=True)


def main():
    parser = gpu_serve.common_options(__doc__)
    parser.add_argument("--llama-bench")
    parser.add_argument("--llama-server")
    args = parser.parse_args()
    record = {"kind": "peers", "device": args.device, "seed": args.seed, "quick": args.quick,
              "llama_bench": [], "llama_server": [], "failed": [], "skipped": []}
    for option in ("llama-bench", "llama-server"):
        if not getattr(args, option.replace("-", "_")):
            print(f"no {option}: --{option} FILE names llama.cpp's, built for this card")
    with tempfile.TemporaryDirectory(prefix="helix-models-") as folder:
        gpu_serve.prepare(args, folder)
        compare(args, gpu_serve.load_of(args), gpu_serve.Deadline(args.seconds), record)
    gpu_serve.append(args.record, record)


if __name__ == "__main__":
    main()
