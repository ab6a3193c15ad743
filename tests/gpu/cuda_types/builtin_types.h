// CUPTI's headers include this file of the CUDA runtime, and use nothing of it: for floor.cpp.
#pragma once
