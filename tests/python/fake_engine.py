"""An OpenAI-compatible server whose answers a test decides, on the standard library alone."""

import collections
import http.server
import json
import threading


class FakeEngine:
    """Serves on a free loopback port from `with` to its end.

    `answer(prompt, attempt)` returns the text, or (status, body) to refuse; attempt counts from 1 for each prompt.
    """

    def __init__(self, answer, model="fake", max_context=32768):
        self.answer, self.model, self.max_context = answer, model, max_context
        self.attempts = collections.Counter()
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"engine": self})
        self.server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def requests(self):
        with self.lock:
            return self.attempts.total()

    def generate(self, path, request):
        chat = path.endswith("/chat/completions")
        prompt = "\n".join(m["content"] for m in request["messages"]) if chat else request["prompt"]
        with self.lock:
            self.attempts[prompt] += 1
            attempt = self.attempts[prompt]
        text = self.answer(prompt, attempt)
        if isinstance(text, tuple):
            return text
        shape = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice = {"index": 0, "finish_reason": "stop", "logprobs": None} | shape
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": max(1, len(text.split()))}
        return 200, {
            "id": "fake",
            "object": "chat.completion" if chat else "text_completion",
            "created": 0,
            "model": self.model,
            "choices": [choice],
            "usage": usage | {"total_tokens": sum(usage.values())},
        }


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # Every connection of a client may be opened at once.
    request_queue_size = 1024


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Headers and body leave together.
    wbufsize = -1
    engine = None

    def do_GET(self):
        if self.path == "/v1/models":
            model = {"id": self.engine.model, "object": "model", "max_model_len": self.engine.max_context}
            self.send(200, {"object": "list", "data": [model]})
        elif self.path == "/health":
            self.send(200, {})
        else:
            self.send(404, {"error": {"message": "Not Found", "type": "NotFoundError", "code": 404}})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path not in ("/v1/completions", "/v1/chat/completions"):
            self.send(404, {"error": {"message": "Not Found", "type": "NotFoundError", "code": 404}})
        elif request["model"] != self.engine.model:
            self.send(404, {"error": {"message": "no such model", "type": "NotFoundError", "code": 404}})
        else:
            self.send(*self.engine.generate(self.path, request))

    def send(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass
