#!/usr/bin/env python3
"""Kills and stops processes of a real cluster at random tokens while it serves, and compares every answer.

    tests/chaos/chaos.py HELIX [--faults 1000] [--kill worker|coordinator|gateway|all] [--leader] [--seed 1] [--workers 4]
                         [--roles] [--vulkan N] [--streams N] [--model FILE.gguf] [--calm-minutes M]

Every request is first answered undisturbed, by CPU workers at full speed. Then they are asked again and again, several
at a time, while after every few tokens a worker gets SIGKILL (and is started again) or SIGSTOP (and later SIGCONT). Each
answer must come to its end and be the undisturbed one, to the letter. Ends with 1 otherwise. With --roles the first half
of the workers computes prompts and the others decode: every answer moves after its first token. Where the machine has a
Vulkan device, of software or not, the second worker computes on it; --vulkan N says how many do. CPU workers are then so
slow that the plan has use for it; a run in which no Vulkan worker held layers has failed. With --kill clients ask two
gateways, and the coordinator is among those that are killed (and started again a second later, as systemd does it) or
stopped; so are gateways, whose clients then ask the other one and get the same answer. With --leader there are two
coordinators, of which one leads and the other takes over; a real etcd says which. With --calm-minutes nobody is hurt for
so long, under the same load: a takeover, or a worker or gateway that is taken for lost, is an error then. Standard library only.
"""
import argparse
import asyncio
import collections
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

import cluster as processes
import streams
import vulkan_share


RESTART_S = 1.0  # of a coordinator that was killed, as systemd does it


class Chaos:
    def __init__(self, args, cluster, vulkan):
        self.args, self.cluster, self.vulkan = args, cluster, vulkan
        self.rng = random.Random(args.seed)
        self.bodies = streams.make_requests(args.requests, args.seed, args.length)
        self.expected = []
        self.pieces = 0
        self.counts = collections.Counter()
        self.fault_times = []
        self.coordinator_deaths = []
        self.leader_deaths = []   # of these, of who led
        self.gateway_deaths = {}  # the last of each
        self.takeover_pauses = []  # in which the leader's death fell, of each request
        self.longer_pauses = []    # in which another coordinator's death fell, too
        self.gaps = []        # the longest of each request that another fault fell into
        self.calm_gaps = []   # of the others
        self.wrong = []
        self.faults_since = {}  # request under way -> faults since its last piece of text
        self.busy = {}        # worker -> the task that brings it back
        self.over = False

    async def learn(self, calm):
        """The right answers, from a cluster that nothing happens to."""
        await calm.ready()
        for body in self.bodies:
            stream = streams.Stream(body)
            await stream.run(calm.port)
            if stream.error or not stream.finished:
                raise SystemExit(f"an undisturbed request failed: {stream.error}\n{body}")
            self.expected.append(stream.answer())

    async def ask(self):
        while not self.over:
            which = self.rng.randrange(len(self.bodies))
            while not await self.ask_once(which):
                self.counts["asked again"] += 1
                await asyncio.sleep(0.05)

    async def ask_once(self, which):
        """False: the gateway that was asked died, or is not there yet."""
        stream = streams.Stream(self.bodies[which])
        began = time.monotonic()
        port = self.rng.choice(self.cluster.ports())
        self.faults_since[stream] = 0
        try:
            await asyncio.wait_for(stream.run(port, lambda: self.count(stream)), self.args.limit)
        except asyncio.TimeoutError:
            stream.error = f"no end after {self.args.limit} s"
        except OSError as error:
            stream.error = str(error) or type(error).__name__
        del self.faults_since[stream]
        if stream.error and self.has_died(port, began):
            self.check_beginning(which, stream)
            return False
        self.judge(which, stream, began)
        return True

    def has_died(self, port, since):
        """Whether this is a gateway that is down, or was killed since then."""
        names = [name for name, its_port in self.cluster.gateways.items() if its_port == port]
        return any(name in self.busy or self.gateway_deaths.get(name, 0) >= since - 2 for name in names)

    def check_beginning(self, which, stream):
        """What a client got of an answer before its gateway died is how the right one begins."""
        for index, text in stream.texts.items():
            right = self.expected[which].get(index, ("", None))[0]
            if not right.startswith(text):
                self.counts["different"] += 1
                self.wrong.append(f"request {which}: expected {right!r}\n  but a gateway that died had said {text!r}")

    async def watch(self, every_s=0.25):
        while not self.over:
            await self.vulkan.look()
            await asyncio.sleep(every_s)

    def count(self, stream):
        self.pieces += 1
        self.faults_since[stream] = 0

    def judge(self, which, stream, began):
        self.counts["requests"] += 1
        hit = any(began <= at for at in self.fault_times[-50:])
        (self.gaps if hit else self.calm_gaps).append(stream.longest_gap())
        self.judge_pauses(stream)
        if stream.error:
            self.counts["failed"] += 1
            self.wrong.append(f"request {which} failed: {stream.error}")
        elif stream.answer() != self.expected[which]:
            self.counts["different"] += 1
            self.wrong.append(f"request {which}: expected {self.expected[which]}\n  but it said {stream.answer()}")
        if len(self.wrong) > 5:
            self.over = True

    def judge_pauses(self, stream):
        """How long it stood still when the coordinator died that led."""
        for pause in dict.fromkeys(filter(None, map(stream.pause_at, self.leader_deaths[-50:]))):
            deaths = sum(pause[0] <= at < pause[1] for at in self.coordinator_deaths[-50:])
            (self.takeover_pauses if deaths == 1 else self.longer_pauses).append(pause[1] - pause[0])

    async def stay_calm(self):
        began = time.monotonic()
        for minute in range(1, self.args.calm_minutes + 1):
            while not self.over and time.monotonic() < began + 60 * minute:
                await asyncio.sleep(0.1)
            print(f"{60 * minute:6.0f} s  {self.line()}", flush=True)
        self.over = True

    def false_alarms(self):
        """What somebody believed of others to which nothing had happened."""
        logs = {name: self.cluster.log(name) for name in self.cluster.processes}
        coordinators = [logs[name] for name in self.cluster.coordinators]
        began = {name: log.count("the next coordinator is there") for name, log in logs.items() if name not in self.cluster.coordinators}
        return {"takeovers": max(0, sum(log.count("this coordinator leads") for log in coordinators) - 1),
                "workers or gateways lost": sum(log.count(" was lost (") for log in coordinators),
                "coordinators missed": sum(began.values())}

    async def disturb(self):
        began = time.monotonic()
        while self.counts["faults"] < self.args.faults and not self.over:
            due = self.pieces + self.rng.randint(1, self.args.every)
            waited = time.monotonic()
            while not self.over and (self.poisonous() or (self.pieces < due and time.monotonic() - waited < 10)):
                await asyncio.sleep(0.005)
            victim = self.choose()
            if victim is None:
                await asyncio.sleep(0.05)
                continue
            self.hurt(victim)
            if self.counts["faults"] % 50 == 0:
                print(f"{time.monotonic() - began:6.0f} s  {self.line()}", flush=True)
        self.over = True

    def choose(self):
        """Who is next: none when too few are left of the kind whose turn it is."""
        kinds = {"all": ["worker", "worker", "coordinator", "gateway"]}.get(self.args.kill, [self.args.kill])
        kind = self.rng.choice(kinds)
        names = {"worker": self.cluster.names, "coordinator": list(self.cluster.coordinators),
                 "gateway": list(self.cluster.gateways)}[kind]
        keep = {"worker": self.args.keep, "coordinator": len(self.cluster.coordinators) - 1, "gateway": 1}[kind]
        up = [name for name in names if name not in self.busy]
        return self.rng.choice(up) if len(up) > keep else None

    def poisonous(self):
        """One more could make the coordinator give up a request: it had no token while three workers died that ran it."""
        return max(self.faults_since.values(), default=0) >= 2

    def hurt(self, name):
        if name in self.cluster.names:
            for stream in self.faults_since:
                self.faults_since[stream] += 1
        stop = self.rng.random() < self.args.stops
        if name in self.cluster.gateways and not stop:
            self.gateway_deaths[name] = time.monotonic()
        if name in self.cluster.coordinators and not stop:
            self.coordinator_deaths.append(time.monotonic())
            if self.cluster.leads(name):
                self.leader_deaths.append(self.coordinator_deaths[-1])
        self.cluster.signal(name, signal.SIGSTOP if stop else signal.SIGKILL)
        self.fault_times.append(time.monotonic())
        self.counts["faults"] += 1
        self.vulkan.faults += name in self.vulkan.names
        self.counts["stopped" if stop else "killed"] += 1
        self.counts["coordinators" if name in self.cluster.coordinators else "gateways" if name in self.cluster.gateways else "workers"] += 1
        self.busy[name] = asyncio.create_task(self.bring_back(name, stop))

    async def bring_back(self, name, stopped):
        await asyncio.sleep(RESTART_S if name in self.cluster.coordinators and not stopped
                            else self.rng.uniform(0.2, 4.0 if stopped else 1.5))
        if stopped:
            self.cluster.signal(name, signal.SIGCONT)
            await self.after_standstill(name)
        elif name in self.cluster.coordinators:
            self.cluster.start_coordinator(name)
        elif name in self.cluster.gateways:
            self.cluster.start_gateway(name)
        else:
            self.cluster.start_worker(name)
        if name in self.cluster.gateways:
            await self.cluster.answers(self.cluster.gateways[name], 60)
        await asyncio.sleep(1.0)  # to join; without it a worker may never serve before its next turn
        if name in self.cluster.names:
            await self.vulkan.hold_again(name)  # it takes longer to measure itself
        del self.busy[name]

    async def after_standstill(self, name):
        """A leader that stood still for too long ends when it finds that another leads; then it is started again."""
        for _ in range(30 if self.cluster.etcd and name in self.cluster.coordinators else 0):
            if self.cluster.processes[name].poll() is not None:
                self.counts["stepped down"] += 1
                self.cluster.start_coordinator(name)
                return
            await asyncio.sleep(0.1)

    def line(self):
        c = self.counts
        whom = f"; workers {c['workers']}, coordinators {c['coordinators']}, gateways {c['gateways']}" if self.cluster.gateways else ""
        again = f", asked again {c['asked again']}" if self.cluster.gateways else ""
        if self.cluster.etcd:
            whom += f", leaders that stepped down {c['stepped down']}"
        return (f"{c['faults']} faults ({c['killed']} killed, {c['stopped']} stopped{whom}), {c['requests']} requests{again}, "
                f"{self.pieces} pieces; failed {c['failed']}, different {c['different']}")

    async def run(self):
        await self.cluster.ready()
        if self.vulkan.names:
            await self.vulkan.hold_layers()
        asking = [asyncio.create_task(self.ask()) for _ in range(self.args.streams)]
        if self.vulkan.names:
            asking.append(asyncio.create_task(self.watch()))
        await (self.stay_calm() if self.args.calm_minutes else self.disturb())
        await asyncio.gather(*asking)
        for task in list(self.busy.values()):
            await task


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def gaps_text(name, gaps):
    return (f"  {name:<44} p50 {percentile(gaps, 0.5) * 1e3:6.0f} ms   p99 {percentile(gaps, 0.99) * 1e3:6.0f} ms   "
            f"max {max(gaps, default=0) * 1e3:6.0f} ms   ({len(gaps)})")


def bound_text(log, args, gaps):
    """What the coordinator promised of one loss. It is held to it where one worker at a time is killed."""
    lines = re.findall(r"if a worker is lost: (.*)", log)
    bounds = [float(number) / (1000 if unit == "ms" else 1)
              for line in lines for number, unit in re.findall(r"at most ([0-9.]+) (ms|s)", line)]
    if not bounds:
        return "no placement came with a bound of the stall after a loss"
    text = f"the coordinator's bounds of the stall after one loss: {min(bounds):.1f} to {max(bounds):.1f} s"
    if args.keep < args.workers - 1 or args.stops > 0:
        return text
    return text + f"; longer than the greatest: {sum(gap > max(bounds) for gap in gaps)} of {len(gaps)}"


def takeover_bound_text(log, args, gaps):
    """What the coordinator promised gateways of its own death. It is held to it where nobody else dies and nobody stands still."""
    found = re.findall(r"if the coordinator is lost: .*at most ([0-9.]+) (ms|s)", log)
    if not found:
        return "no coordinator came with a bound of the stall after its own loss"
    bound = max(float(number) / (1000 if unit == "ms" else 1) for number, unit in found)
    text = f"the coordinator's bound of the stall after its own loss: {bound:.1f} s"
    if args.kill != "coordinator" or args.stops > 0:
        return text
    return text + f"; longer: {sum(gap > bound for gap in gaps)} of {len(gaps)}"


def devices_of(args):
    """What each worker computes on; empty: all on CPUs. Vulkan workers follow the first, so that they are among CPU ones."""
    if args.vulkan == 0:
        return []
    there = processes.vulkan_devices(args.helix)
    if not there:
        if args.vulkan is not None:
            raise SystemExit(f"--vulkan {args.vulkan}: helix devices lists no Vulkan device that can be used")
        print("Vulkan workers: skipped, helix devices lists no Vulkan device that can be used", flush=True)
        return []
    count = 1 if args.vulkan is None else args.vulkan
    if not 0 < count < args.workers:
        raise SystemExit(f"--vulkan {count}: of {args.workers} workers 0 to {args.workers - 1} can be Vulkan ones")
    return ["cpu"] + [there[i % len(there)] for i in range(count)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helix")
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--kill", choices=["worker", "coordinator", "gateway", "all"], default="worker",
                        help="who is killed and stopped; other than workers: clients ask two gateways")
    parser.add_argument("--calm-minutes", type=int, default=0, help="hurt nobody for so long, and look for false alarms")
    parser.add_argument("--leader", action="store_true", help="two coordinators, of which one leads by a real etcd")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--roles", action="store_true", help="half of the workers compute prompts, half decode")
    parser.add_argument("--vulkan", type=int, metavar="N",
                        help="workers on Vulkan devices [1 where helix devices lists one, else 0]")
    parser.add_argument("--keep", type=int, default=2, help="so many workers are left alone at any time")
    parser.add_argument("--streams", type=int, help="requests at a time [8; 4 with Vulkan workers]")
    parser.add_argument("--requests", type=int, default=24, help="different ones")
    parser.add_argument("--length", type=float, help="of prompts and answers, as a share of 60 words and 120 tokens at most "
                        "[1; 0.3 with Vulkan workers]")
    parser.add_argument("--every", type=int, default=60, help="a fault after 1 to so many pieces of text")
    parser.add_argument("--stops", type=float, default=0.25, help="share of SIGSTOP among the faults")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a request may take")
    parser.add_argument("--model", help="GGUF file [a small synthetic one]")
    parser.add_argument("--memory", default="900kB", help="of each worker")
    parser.add_argument("--speed", type=float, help="share of full speed of each CPU worker [0.1; 0.006 beside Vulkan ones]")
    return parser.parse_args()


def suit_devices(args, devices):
    """A Vulkan device of software takes milliseconds for a layer and token: beside quicker CPUs the plan has no use for
    it, and what a fault makes it compute anew has to be little."""
    args.speed = args.speed or (0.006 if devices else 0.1)
    args.streams = args.streams or (4 if devices else 8)
    args.length = args.length or (0.3 if devices else 1)


def answers_of_cpus(chaos, helix, model, folder, serve):
    """Learns the right answers from as many CPU workers, quick ones to which nothing happens."""
    folder.mkdir()
    calm = processes.Cluster(helix, model, chaos.args.workers, folder, chaos.args.memory, 1, serve=serve)
    try:
        calm.start()
        asyncio.run(chaos.learn(calm))
    finally:
        calm.stop()
    print(f"{len(chaos.bodies)} requests answered undisturbed, by CPUs; now with faults (seed {chaos.args.seed})", flush=True)


def main():
    args = parse()
    if args.leader and shutil.which("etcd") is None:
        print("skipped: there is no etcd command here (apt install etcd-server)")
        sys.exit(77)
    devices = devices_of(args)
    suit_devices(args, devices)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="helix-chaos-"))
    model = args.model or processes.tiny_model(args.helix, folder)
    template = folder / "chat.jinja"
    template.write_text(streams.CHAT_TEMPLATE)
    serve = ["--chat-template", str(template)]
    half = args.workers // 2
    roles = ["prefill"] * half + ["decode"] * (args.workers - half) if args.roles else []
    cluster = processes.Cluster(args.helix, model, args.workers, folder, args.memory, args.speed, serve=serve, roles=roles,
                                devices=devices, speeds=[args.speed if device == "cpu" else 1 for device in devices],
                                gateways=0 if args.kill == "worker" else 2, coordinators=2 if args.leader else 1)
    vulkan = vulkan_share.VulkanShare(cluster, [name for name, device in cluster.devices.items() if device != "cpu"])
    chaos = Chaos(args, cluster, vulkan)
    answers_of_cpus(chaos, args.helix, model, folder / "calm", serve)
    try:
        cluster.start()
        asyncio.run(chaos.run())
    finally:
        cluster.stop()
    report(chaos, args, folder)


def report(chaos, args, folder):
    """Prints what came out; ends the program with 1 when that is not what has to."""
    cluster = chaos.cluster
    told = "".join(cluster.log(name) for name in cluster.coordinators)
    print(chaos.line())
    if chaos.leader_deaths:
        print(f"pauses at the death of the coordinator that led ({len(chaos.leader_deaths)} of {len(chaos.coordinator_deaths)} deaths)")
        print(gaps_text("of each request", chaos.takeover_pauses))
        print(gaps_text("in which another coordinator died, too", chaos.longer_pauses))
    print("longest gap between two pieces of text of a request")
    print(gaps_text("with a fault in its time", chaos.gaps))
    print(gaps_text("without", chaos.calm_gaps))
    if args.calm_minutes:
        alarms = chaos.false_alarms()
        print("while nothing happened: " + ", ".join(f"{what} {count}" for what, count in alarms.items()))
        chaos.wrong.extend(f"{what}: {count}, though nothing happened" for what, count in alarms.items() if count > 0)
    print(bound_text(told, args, chaos.gaps))
    if chaos.takeover_pauses:
        print(takeover_bound_text(told, args, chaos.takeover_pauses))
    placements = sorted(set(re.findall(r"in force: (.*)", told)))
    print(f"{len(placements)} different placements, such as: {'; or '.join(placements[:2])}")
    if chaos.vulkan.names:
        print(chaos.vulkan.text())
        if chaos.vulkan.placements_with() == 0:
            chaos.wrong.append("no placement in force gave a Vulkan worker layers")
    for text in chaos.wrong:
        print(text)
    if chaos.wrong or chaos.counts["requests"] == 0:
        print(f"FAILED; logs in {folder}; again: {' '.join(sys.argv)}")
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
