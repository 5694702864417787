"""What Vulkan workers had of a run: whether it shows anything about them."""
import asyncio
import re
import signal
import time

import streams


class VulkanShare:
    """Looks at the cluster now and then; names: its Vulkan workers."""

    def __init__(self, cluster, names):
        self.cluster, self.names = cluster, set(names)
        self.holding = {}  # those that hold layers and are ready, as seen last, with these layers
        self.looks, self.looks_with = 0, 0
        self.faults = 0  # that hit one of them
        self.through = {}  # request -> whether a pipeline of it that was seen has a Vulkan worker

    async def look(self):
        view = await streams.get_json(self.cluster.port, "/helix/cluster")
        self.holding = {worker["name"]: worker["layers"] for worker in view["workers"] if worker["name"] in self.names
                        and worker["ready"] and worker["layers"][1] > worker["layers"][0]}
        self.looks += 1
        self.looks_with += bool(self.holding)
        ids = {worker["id"] for worker in view["workers"] if worker["name"] in self.names}
        for request in view["requests"]:
            passes = any(stage["worker"] in ids for stage in request["pipeline"])
            self.through[request["id"]] = passes or self.through.get(request["id"], False)

    async def hold_layers(self, limit_s=60, again_s=8):
        """Ends the program when none does: every answer would come from CPUs alone. Where the machine is busy one may
        find itself far slower than it is; those without layers are started again now and then, to measure themselves."""
        began = started = time.monotonic()
        await self.look()
        while not self.holding and time.monotonic() - began < limit_s:
            await asyncio.sleep(0.2)
            await self.look()
            if not self.holding and time.monotonic() - started > again_s:
                print("no Vulkan worker holds layers: started again, to measure themselves anew", flush=True)
                self.start_again()
                started = time.monotonic()
        if not self.holding:
            raise SystemExit("the plan gives layers to CPU workers alone (slow these down with --speed, or --vulkan 0): "
                             + "; ".join(self.placements()))
        print("Vulkan workers: " + ", ".join(f"{name} holds layers [{begin}, {end})"
                                             for name, (begin, end) in self.holding.items()), flush=True)

    def start_again(self):
        for name in sorted(self.names):
            self.cluster.signal(name, signal.SIGKILL)
            self.cluster.start_worker(name)

    async def hold_again(self, name, limit_s=5):
        """Waits until this Vulkan worker, if it is one, holds layers. The plan may have none for it."""
        until = time.monotonic() + limit_s
        while name in self.names and name not in self.holding and time.monotonic() < until:
            await asyncio.sleep(0.1)

    def placements(self):
        """Those that were in force, one after the other, in words."""
        return re.findall(r"placement \d+ in force: (.*)", self.cluster.log("coordinator"))

    def placements_with(self):
        """How many of those gave a Vulkan worker layers."""
        held = re.compile(r"\b(" + "|".join(sorted(self.names)) + r") layers \d")
        return sum(bool(held.search(text)) for text in self.placements())

    def text(self):
        return (f"Vulkan workers had {self.faults} of the faults, held layers in {self.placements_with()} of {len(self.placements())} placements in force, "
                f"and {self.looks_with} of {self.looks} times that one looked; of {len(self.through)} requests that were "
                f"seen {sum(self.through.values())} went through one")
