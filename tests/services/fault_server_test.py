from tests.services import fault_server


def test_a_refusal_that_ends_with_the_server_listens_no_more():
  server = fault_server.FaultServer(lambda body: "yes")
  with server:
    # It ends between the server's own closing and the end of its tasks.
    server._loop.call_soon_threadsafe(
      lambda: (server._start(server._refuse(0)), server._stop.set())
    )
  assert server._listener.fileno() == -1
