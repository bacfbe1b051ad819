package main

import (
	"context"
	"fmt"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

const managedBy = "made-by"

// argoCD: the cache of a cluster, which watches every kind that the user may list, and syncs: create, server-side apply, prune.
func argoCD(ctx context.Context, config *rest.Config, pod string) error {
	name := "argo-cd-" + pod
	owner := func(object *unstructured.Unstructured, _ bool) (any, bool) {
		mark := object.GetLabels()[managedBy]
		return mark, mark != ""
	}
	cluster := cache.NewClusterCache(config,
		cache.SetNamespaces([]string{namespace}),
		cache.SetRespectRBAC(cache.RespectRbacNormal),
		cache.SetPopulateResourceInfoHandler(owner),
		cache.SetLogr(logr.Discard()),
	)
	argo := engine.NewEngine(config, cluster, engine.WithLogr(logr.Discard()))
	stop, err := argo.Run()
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	defer stop()
	cached := func(kind, name string) int {
		found := cluster.FindResources(namespace, func(one *cache.Resource) bool {
			return one.Ref.Kind == kind && one.Ref.Name == name
		})
		return len(found)
	}
	did("cache", cached("Pod", pod))

	object := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{managedBy: name}},
			"data":     map[string]any{"key": value},
		}}
	}
	isManaged := func(one *cache.Resource) bool { return one.Info == any(name) }
	// Argo's own default is foreground, which waits for a garbage collector.
	background := metav1.DeletePropagationBackground
	steps := []struct {
		what    string
		target  []*unstructured.Unstructured
		options []sync.SyncOpt
	}{
		{"create", []*unstructured.Unstructured{object("one")}, nil},
		{"apply", []*unstructured.Unstructured{object("two")}, nil},
		{"server-side", []*unstructured.Unstructured{object("three")}, []sync.SyncOpt{
			sync.WithServerSideApply(true), sync.WithServerSideApplyManager("argocd-controller"),
		}},
		{"prune", nil, []sync.SyncOpt{sync.WithPrune(true), sync.WithPrunePropagationPolicy(&background)}},
	}
	for _, step := range steps {
		options := append(step.options, sync.WithLogr(logr.Discard()))
		results, err := argo.Sync(ctx, step.target, isManaged, step.what, namespace, options...)
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		for _, result := range results {
			did(step.what, result.Status, result.Message)
		}
		// The next step starts from what the watch has brought.
		if err := seen(ctx, cluster, isManaged, step.target); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	did("watch", cached("ConfigMap", name))
	return nil
}

// seen waits until the cache has the objects as they were written, and no others.
func seen(ctx context.Context, cluster cache.ClusterCache, isManaged func(*cache.Resource) bool, wanted []*unstructured.Unstructured) error {
	for {
		live, err := cluster.GetManagedLiveObjs(wanted, isManaged)
		if err != nil {
			return err
		}
		same := len(live) == len(wanted)
		for _, one := range wanted {
			found := live[kube.GetResourceKey(one)]
			same = same && found != nil && fmt.Sprint(found.Object["data"]) == fmt.Sprint(one.Object["data"])
		}
		if same {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cache does not see it: %v", live)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
