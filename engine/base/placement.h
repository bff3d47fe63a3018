// Where the linker puts functions and data. The hooks run once per training step, after a whole
// model has gone through the caches: each line of code they touch is a miss, each page another one.
#pragma once

// Runs on every plain step: such code lies together.
#define SONDE_HOT __attribute__((hot))
// Runs on steps of other kinds: never inlined into what runs on the plain ones.
#define SONDE_APART __attribute__((noinline))
// Runs rarely: such code lies apart from the rest.
#define SONDE_COLD __attribute__((cold, noinline))
// A variable that plain steps look at: such data lies together, too.
#define SONDE_HOT_DATA __attribute__((section("sonde_hot")))
