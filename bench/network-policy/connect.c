/* connect ADDRESS PORT COUNT: prints how long each TCP connect took, in nanoseconds, one per line. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  struct sockaddr_in to;
  memset(&to, 0, sizeof(to));
  to.sin_family = AF_INET;
  to.sin_port = htons((unsigned short)atoi(argv[2]));
  if (inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) return 2;
  for (int left = atoi(argv[3]); left > 0; left--) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    long long began = now();
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
      perror("connect");
      return 1;
    }
    printf("%lld\n", now() - began);
    /* A reset leaves no TIME_WAIT, which would use up the local ports. */
    struct linger none = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(fd);
  }
  return 0;
}
