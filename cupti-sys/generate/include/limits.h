#ifndef GENERATE_LIMITS_H
#define GENERATE_LIMITS_H
#define INT_MAX __INT_MAX__
#define UINT_MAX (__INT_MAX__ * 2U + 1U)
#endif
