#include "cli/command.h"

int main(int argc, char** argv) {
    return helix::cli::run(argc, argv);
}
