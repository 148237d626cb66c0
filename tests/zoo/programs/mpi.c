// MPI: `mismatch`: each rank receives what nobody sends; `healthy`: barriers for ever.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, got;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    puts("READY"); fflush(stdout);
    if (!strcmp(argv[1], "mismatch")) MPI_Recv(&got, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else for (;;) { MPI_Barrier(MPI_COMM_WORLD); usleep(20000); }
    MPI_Finalize();
}
