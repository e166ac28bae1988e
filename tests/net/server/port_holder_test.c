#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/server/port_holder.h"
#include "support/check.h"

static int listen_on_free_port(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&address, sizeof address));
    assert_int_equal(0, listen(fd, 1));
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&address, &len));
    *port = ntohs(address.sin_port);
    return fd;
}

static void a_listening_port_is_named_with_its_process(void **state)
{
    (void)state;
    uint16_t port = 0;
    const int fd = listen_on_free_port(&port);
    char holder[TIDE_PORT_HOLDER_MAX];
    char want[TIDE_PORT_HOLDER_MAX];
    tide_port_holder(holder, port);
    (void)snprintf(want, sizeof want, "process %d (", (int)getpid());
    (void)close(fd);
    assert_int_equal(0, strncmp(holder, want, strlen(want)));
}

static void a_port_that_no_process_listens_on_has_no_holder(void **state)
{
    (void)state;
    uint16_t port = 0;
    const int fd = listen_on_free_port(&port);
    (void)close(fd);
    char holder[TIDE_PORT_HOLDER_MAX] = "x";
    tide_port_holder(holder, port);
    assert_string_equal("", holder);
}

TEST_FILE()
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_listening_port_is_named_with_its_process),
        cmocka_unit_test(a_port_that_no_process_listens_on_has_no_holder),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
