#define HEDDLE_INSTANCES
#include "instances.hpp"
