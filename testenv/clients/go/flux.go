package main

import (
	"context"
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// flux: server-side apply with drift detection and deletion, as kustomize-controller does it.
func flux(ctx context.Context, config *rest.Config, pod string) error {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	own, err := client.New(config, client.Options{Mapper: mapper})
	if err != nil {
		return err
	}
	poller := polling.NewStatusPoller(own, mapper, polling.Options{})
	manager := ssa.NewResourceManager(own, poller, ssa.Owner{Field: "flux", Group: "example.com"})
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "flux-" + pod, "namespace": namespace},
		"data":     map[string]any{"key": "value"},
	}}
	for range 2 {
		changes, err := manager.ApplyAll(ctx, []*unstructured.Unstructured{object.DeepCopy()}, ssa.DefaultApplyOptions())
		if err != nil {
			return fmt.Errorf("apply: %w", err)
		}
		did("apply", changes.Entries[0].Action)
	}
	if err := manager.Wait([]*unstructured.Unstructured{object}, ssa.DefaultWaitOptions()); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	did("wait")
	entry, err := manager.Delete(ctx, object, ssa.DefaultDeleteOptions())
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	did("delete", entry.Action)
	return nil
}
