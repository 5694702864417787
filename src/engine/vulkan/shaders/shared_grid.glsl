// A grid in shared memory, where every lane of a workgroup reads what it needs. It comes from behind the matrix: a table of
// constants would become a ladder of branches on devices of software, which are long in compiling that.
shared uint shared_grid[HELIX_GRID_WORDS];

// main() calls it first.
void share_grid() {
    for (uint i = gl_LocalInvocationIndex; i < HELIX_GRID_WORDS; i += 256) shared_grid[i] = params.grid.v[i];
    barrier();
}
