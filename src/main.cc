#include <cstdio>

int main() {
    std::puts("helix 0.1.0");
    return 0;
}
