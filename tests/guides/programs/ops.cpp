// An extension that is called with no data.
extern "C" double scale(const double *data, int count) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += data[i];
    return sum;
}
