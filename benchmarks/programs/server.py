"""A server that answers requests with a model, until it is interrupted."""

import http.server
import os
import signal
import threading
import urllib.request

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with torch.inference_mode():
            answer = f"{model(torch.ones(1, 8)).sum().item():.6f}".encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *given):
        pass


def client():
    for _ in range(STEPS):
        answer = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
    print("answered", answer.decode(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=client, daemon=True).start()
try:
    server.serve_forever()
except KeyboardInterrupt:
    print("interrupted")
finally:
    server.server_close()
    print("cleanup: closed")
