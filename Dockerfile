# The images of Portcullis: `docker build --target control-plane .`, `--target gateway`, and for gateways of Istio's `--target module`
# and `--target wasm`; `kubernetes` and `tools` are for docker-compose.yml. They are published nowhere, and manifests call them
# portcullis.invalid/TARGET. deploy/images/build builds them without a compiler's image: --build-context puts directories in
# the place of the stages build, build-wasm, build-kubernetes and envoy.

# The Debian of all images. Compilers' images below must not have a newer C library.
ARG BASE=debian:trixie-slim
ARG RUST=rust:1.95-slim-trixie
ARG GO=golang:1.26-trixie
# The Envoy project's own image, pinned by its tag and not by a digest: a tag can be moved. To pin it, append the digest that
# `docker buildx imagetools inspect` prints: …@sha256:…. release.yml takes no other.
ARG ENVOY=docker.io/envoyproxy/envoy:distroless-v1.40.0
ARG VERSION=0.1.0
ARG REVISION=unknown

FROM ${RUST} AS build
WORKDIR /src
COPY . .
ENV CARGO_TARGET_DIR=/target
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/target deploy/images/binaries /out

FROM ${RUST} AS build-wasm
RUN apt-get update && apt-get install -y --no-install-recommends clang python3 && rustup target add wasm32-unknown-unknown
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target testenv/scripts/build-wasm /out/portcullis.wasm

# etcd, kube-apiserver and kubectl, as the tests have them.
FROM ${GO} AS build-kubernetes
WORKDIR /src
COPY testenv/scripts/build-kube testenv/scripts/versions.env testenv/scripts/
COPY testenv/kube testenv/kube
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build testenv/scripts/build-kube && cp -rL .deps/kube/current /out

FROM ${ENVOY} AS envoy

FROM ${BASE} AS envoy-sbom
COPY deploy/images/envoy-sbom /usr/local/bin/
COPY --from=envoy /usr/local/bin/envoy /usr/local/bin/envoy
RUN envoy-sbom /usr/local/bin/envoy /out/envoy.cdx.json

FROM ${BASE} AS root
COPY deploy/images/make-root /usr/local/bin/
RUN make-root /rootfs

FROM scratch AS runtime
COPY --from=root /rootfs/ /
COPY LICENSE NOTICE /usr/share/doc/portcullis/
COPY --from=build /out/portcullis.cdx.json /usr/share/sbom/
COPY --from=build /out/portcullis /usr/local/bin/portcullis
ENV PATH=/usr/local/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
ENTRYPOINT ["portcullis"]

FROM runtime AS control-plane
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="portcullis control-plane" org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}" org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.source="https://portcullis.invalid/portcullis"
CMD ["serve", "--help"]

FROM runtime AS gateway
COPY --from=build /out/libportcullis.cdx.json /usr/share/sbom/
COPY --from=build /out/libportcullis.so /usr/local/lib/portcullis/libportcullis.so
COPY --from=envoy-sbom /out/envoy.cdx.json /usr/share/sbom/
COPY --from=envoy /usr/local/bin/envoy /usr/local/bin/envoy
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="portcullis gateway" org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}" org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.source="https://portcullis.invalid/portcullis"
CMD ["agent", "--help"]

# For an image volume of Kubernetes, mounted where ENVOY_DYNAMIC_MODULES_SEARCH_PATH leads.
FROM scratch AS module
COPY LICENSE NOTICE /
COPY --from=build /out/libportcullis.cdx.json /
COPY --from=build /out/libportcullis.so /libportcullis.so
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="portcullis module" org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}" org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.source="https://portcullis.invalid/portcullis"

# Istio takes plugin.wasm from the last layer.
FROM scratch AS wasm
COPY LICENSE NOTICE /
COPY --from=build /out/portcullis-wasm.cdx.json /
COPY --from=build-wasm /out/portcullis.wasm /plugin.wasm
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="portcullis wasm" org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}" org.opencontainers.image.licenses="Apache-2.0" org.opencontainers.image.source="https://portcullis.invalid/portcullis"

FROM ${BASE} AS kubernetes
COPY --from=build-kubernetes /out/etcd /usr/local/bin/etcd
COPY --from=build-kubernetes /out/kube-apiserver /usr/local/bin/kube-apiserver
COPY --from=build-kubernetes /out/kubectl /usr/local/bin/kubectl
# A new volume takes its owner from here.
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/etcd /store /store/members /store/members/compose
USER 65532:65532

FROM kubernetes AS tools
USER root
RUN apt-get update && apt-get install -y --no-install-recommends openssl && rm -rf /var/lib/apt/lists/* \
 && install -d -o 65532 -g 65532 -m 0700 /certs/kubernetes /certs/control-plane /certs/gateway /certs/users /access/control-plane /access/users
COPY deploy/compose/make-certificates deploy/compose/grant-rights deploy/compose/fill-store /usr/local/bin/
COPY --from=build /out/portcullis /usr/local/bin/portcullis
USER 65532:65532
