package main

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// The kubelet's own defaults.
const (
	streamIdle     = 4 * time.Hour
	streamCreation = remotecommand.DefaultStreamCreationTimeout
)

// kubelet is what kube-apiserver sees of a node.
type kubelet struct{ containers *containers }

func (k *kubelet) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	return mux
}

func podOf(r *http.Request) string { return r.PathValue("namespace") + "/" + r.PathValue("pod") }

func (k *kubelet) exec(w http.ResponseWriter, r *http.Request) {
	wanted, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	command := r.URL.Query()["command"]
	remotecommand.ServeExec(w, r, k.containers, podOf(r), "", r.PathValue("container"), command, wanted,
		streamIdle, streamCreation, remotecommand.SupportedStreamingProtocols)
}

func (k *kubelet) attach(w http.ResponseWriter, r *http.Request) {
	wanted, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, k.containers, podOf(r), "", r.PathValue("container"), wanted,
		streamIdle, streamCreation, remotecommand.SupportedStreamingProtocols)
}

func (k *kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	wanted, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder{services()}, podOf(r), "", wanted,
		streamIdle, streamCreation, portforward.SupportedProtocols)
}

// logs knows follow and tailLines.
func (k *kubelet) logs(w http.ResponseWriter, r *http.Request) {
	container, err := k.containers.of(podOf(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	from := 0
	if tail, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		from = max(0, container.output.len()-tail)
	}
	write := func(piece piece) error {
		if _, err := w.Write(piece.bytes); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	w.Header().Set("Content-Type", "text/plain")
	if r.URL.Query().Get("follow") != "true" {
		for _, piece := range container.output.since(from) {
			if write(piece) != nil {
				return
			}
		}
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	// Ends with the client.
	_ = container.output.follow(r.Context(), from, nil, write)
}
