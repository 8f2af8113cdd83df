# docker build --build-arg ROLLOUTD_COMMIT=$(git rev-parse --short=12 HEAD) --tag rolloutd .
# What a container of it must be allowed is in docs/deployment.md; `docker run ... rolloutd doctor` checks it.

FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates gcc libc6-dev libcap-dev npm xz-utils \
 && rm -rf /var/lib/apt/lists/*
RUN npm install --global bun@1.4.4
WORKDIR /build
COPY package.json bun.lock bunfig.toml ./
RUN bun install --frozen-lockfile --production
COPY . .
ARG ROLLOUTD_COMMIT=unknown
RUN ROLLOUTD_COMMIT=$ROLLOUTD_COMMIT ROLLOUTD_CACHE=/tmp/cache bun run build

FROM debian:bookworm-slim
# Sandboxes see this image's /usr: what agents shall have is installed here.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/rolloutd
COPY --from=build /build/dist/rolloutd /usr/local/bin/rolloutd
COPY --from=build /build/LICENSE /build/NOTICE /build/dist/bubblewrap_*.orig.tar.xz /usr/share/doc/rolloutd/

# All interfaces, so a token file is asked for: the server runs code for whoever can reach it.
ENV ROLLOUTD_HOST=0.0.0.0 ROLLOUTD_DATA=/var/lib/rolloutd ROLLOUTD_TOKEN_FILE=/run/secrets/rolloutd-token
# By number: no account is needed. With --user 0 sandboxes run as --sandbox-uid instead.
USER 10001:10001
VOLUME /var/lib/rolloutd
EXPOSE 8006
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8006/healthz', timeout=2)"]
ENTRYPOINT ["rolloutd"]
CMD ["serve"]
