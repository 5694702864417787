// A grid in shared memory, where every lane of a workgroup reads what it needs. A table of constants that is indexed in many
// places would become as many ladders of branches on devices of software.
shared uint shared_grid[kGridWords];

// main() calls it first.
void share_grid() {
    const uint grid[kGridWords] = uint[](HELIX_GRID);
    for (uint i = gl_LocalInvocationIndex; i < kGridWords; i += 256) shared_grid[i] = grid[i];
    barrier();
}
