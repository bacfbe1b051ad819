package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// controllerRuntime: a manager whose controller writes a label by server-side apply, as operators do.
func controllerRuntime(ctx context.Context, config *rest.Config, pod string) error {
	ctrl.SetLogger(zap.New(zap.WriteTo(discard{})))
	name := "controller-runtime-" + pod
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Cache:                  cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	own := manager.GetClient()
	labelled := make(chan struct{}, 1)
	reconciler := reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		if request.Name != name {
			return ctrl.Result{}, nil
		}
		var found corev1.ConfigMap
		if err := own.Get(ctx, request.NamespacedName, &found); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if found.Labels["seen"] == "yes" {
			select {
			case labelled <- struct{}{}:
			default:
			}
			return ctrl.Result{}, nil
		}
		patch := client.MergeFrom(found.DeepCopy())
		found.Labels["seen"] = "yes"
		return ctrl.Result{}, own.Patch(ctx, &found, patch)
	})
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Named("labels").Complete(reconciler); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	object := configMap(name)
	object.Namespace = namespace
	if err := own.Create(ctx, object); err != nil {
		stop()
		return fmt.Errorf("create: %w", err)
	}
	did("create")
	select {
	case <-labelled:
		did("reconcile")
	case err := <-ended:
		stop()
		return fmt.Errorf("manager: %w", err)
	case <-ctx.Done():
		stop()
		return fmt.Errorf("reconcile: the controller does not see its own patch")
	}
	if err := own.Delete(ctx, object); err != nil {
		stop()
		return fmt.Errorf("delete: %w", err)
	}
	did("delete")
	err = manager.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(object), object)
	if !apierrors.IsNotFound(err) {
		stop()
		return fmt.Errorf("get after delete: %w", err)
	}
	stop()
	return <-ended
}

// discard takes the logs of libraries.
type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }
