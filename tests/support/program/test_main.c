/* test_main.c - main of a program of test files: see test_file.h. It is alone in its file, so a
 * program with a main of its own does not link it. */
#include "support/program/test_file.h"

int main(int argc, char **argv)
{
    return test_file_main(argc, argv);
}
