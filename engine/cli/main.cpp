#include "engine/cli/program.h"

int main(int argc, char** argv) { return sonde::cli::run_program(argc, argv); }
