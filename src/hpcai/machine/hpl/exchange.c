/* Row exchanges in the order of HPL on one process row (HPL_dlaswp00N): 32 columns of one pair of rows, then of the
 * next pair. LAPACK's DLASWP takes all pairs of a few columns first and has fewer accesses to memory under way. */
#include <stddef.h>

#define DEPTH 32

/* Exchange row i with row pivots[i], counted from the first row of the matrix, for one i after the other. */
void exchange_rows(int rows, int columns, double *matrix, size_t leading, const int *pivots)
{
    for (int begin = 0; begin < columns; begin += DEPTH, matrix += DEPTH * leading) {
        int width = columns - begin < DEPTH ? columns - begin : DEPTH;
        for (int row = 0; row < rows; row++) {
            double *one = matrix + row, *other = matrix + pivots[row];
            if (one == other)
                continue;
            for (int column = 0; column < width; column++, one += leading, other += leading) {
                double kept = *one;
                *one = *other;
                *other = kept;
            }
        }
    }
}
