"""Whether a download could begin, known in seconds."""

import queue
import socket
import threading
import time
import urllib.parse
import urllib.request

SECONDS = 4
PORTS = {"http": 80, "ftp": 21}


def any_answers(urls):
    """Whether one of the servers takes a connection, within four seconds.

    What downloads tries again for minutes before it says that none does.

    Args:
        urls: Strings. Where a proxy is set for one of them, it is asked.
    """
    servers = {_server(url) for url in urls}
    answers = queue.SimpleQueue()

    def knock(server):
        try:
            socket.create_connection(server, timeout=SECONDS).close()
        except OSError:
            answers.put(False)
        else:
            answers.put(True)

    for server in servers:
        # To look up a name may take longer than any timeout: nobody waits.
        threading.Thread(target=knock, args=(server,), daemon=True).start()
    end = time.monotonic() + SECONDS
    try:
        return any(
            answers.get(timeout=max(0.0, end - time.monotonic()))
            for _ in servers
        )
    except queue.Empty:
        return False


def _server(url):
    """Host and port behind a URL, or those of its proxy."""
    parts = urllib.parse.urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return parts.hostname or "", parts.port or PORTS.get(parts.scheme, 443)
