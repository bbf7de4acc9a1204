/* Rate of messages between the first two processes, sent back and forth, of the size for which hpcc tells it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 2000000
#define WARM 10
#define TRIPS 200

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **words)
{
    int rank, processes;
    double trips_s[TRIPS];
    char *message = malloc(BYTES);
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    memset(message, 1, BYTES);
    for (int trip = -WARM; processes > 1 && rank < 2 && trip < TRIPS; trip++) {
        double begin_s = MPI_Wtime();
        if (rank == 0)
            MPI_Send(message, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(message, BYTES, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(message, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        if (trip >= 0)
            trips_s[trip] = MPI_Wtime() - begin_s;
    }
    if (processes > 1 && rank == 0) {
        qsort(trips_s, TRIPS, sizeof(double), compare);
        printf("message_rate_bytes_per_s=%.6e\n", 2.0 * BYTES / trips_s[TRIPS / 2]);
    }
    MPI_Finalize();
    return 0;
}
