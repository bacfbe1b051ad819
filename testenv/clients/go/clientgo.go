package main

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/remotecommand"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"made-by": name}},
		Data:       map[string]string{"key": "value"},
	}
}

// clientGo: typed calls, an informer, and exec over WebSocket and SPDY.
func clientGo(ctx context.Context, config *rest.Config, pod string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	did("list", len(pods.Items))
	maps, name := client.CoreV1().ConfigMaps(namespace), "client-go-"+pod
	watching, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "made-by=" + name})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watching.Stop()
	if _, err = maps.Create(ctx, configMap(name), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	did("create")
	if err = informed(ctx, client, name); err != nil {
		return err
	}
	if err = maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	did("delete")
	for _, wanted := range []watch.EventType{watch.Added, watch.Deleted} {
		select {
		case event := <-watching.ResultChan():
			if event.Type != wanted {
				return fmt.Errorf("watch: %s instead of %s", event.Type, wanted)
			}
			did("watch", event.Type)
		case <-ctx.Done():
			return fmt.Errorf("watch: no event %s", wanted)
		}
	}
	return execs(ctx, config, client, pod)
}

// informed waits until an informer has the object.
func informed(ctx context.Context, client kubernetes.Interface, name string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps()
	synced := informer.Informer().HasSynced
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return fmt.Errorf("informer: not synchronised")
	}
	if _, err := informer.Lister().ConfigMaps(namespace).Get(name); err != nil {
		return fmt.Errorf("informer: %w", err)
	}
	did("informer")
	return nil
}

// execs runs a command over each protocol.
func execs(ctx context.Context, config *rest.Config, client kubernetes.Interface, pod string) error {
	options := &corev1.PodExecOptions{Command: []string{"sh", "-c", "cat; echo end"}, Stdin: true, Stdout: true, Stderr: true}
	url := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec).URL()
	webSocket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name     string
		executor remotecommand.Executor
	}{{"websocket", webSocket}, {"spdy", spdy}} {
		// One for each: both are written at the same time.
		var output, errors bytes.Buffer
		streams := remotecommand.StreamOptions{Stdin: bytes.NewBufferString("input\n"), Stdout: &output, Stderr: &errors}
		if err := way.executor.StreamWithContext(ctx, streams); err != nil {
			return fmt.Errorf("exec %s: %w", way.name, err)
		}
		did("exec", way.name, fmt.Sprintf("%q %q", output.String(), errors.String()))
	}
	return nil
}
