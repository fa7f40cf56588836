// sst2: trains, evaluates and applies the encoder classifier on SST-2.
#include "system.hpp"

int main(int argc, char** argv) { return heddle::examples::trainer<heddle::examples::Sst2>(argc, argv); }
