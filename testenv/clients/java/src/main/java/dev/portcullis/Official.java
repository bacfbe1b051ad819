package dev.portcullis;

import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.Exec;
import io.kubernetes.client.custom.V1Patch;
import io.kubernetes.client.informer.ResourceEventHandler;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.CallGeneratorParams;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import io.kubernetes.client.util.PatchUtils;
import io.kubernetes.client.util.Watch;
import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Official KUBECONFIG POD: drives the Kubernetes project's client, and prints a line for each thing that it did. */
public final class Official {
  private static final String NAMESPACE = "default";

  public static void main(String[] arguments) throws Exception {
    String pod = arguments[1];
    String name = "official-java-" + pod;
    String selector = "made-by=" + name;
    ApiClient client;
    try (FileReader reader = new FileReader(arguments[0], StandardCharsets.UTF_8)) {
      client = ClientBuilder.kubeconfig(KubeConfig.loadKubeConfig(reader)).build();
    }
    CoreV1Api api = new CoreV1Api(client);
    var pods = api.listNamespacedPod(NAMESPACE).fieldSelector("metadata.name=" + pod).execute();
    System.out.println("list " + pods.getItems().size());

    BlockingQueue<String> informed = new LinkedBlockingQueue<>();
    SharedInformerFactory informers = new SharedInformerFactory(client);
    var informer = informers.sharedIndexInformerFor(
        (CallGeneratorParams wanted) -> api.listNamespacedConfigMap(NAMESPACE).labelSelector(selector)
            .resourceVersion(wanted.resourceVersion).timeoutSeconds(wanted.timeoutSeconds).watch(wanted.watch).buildCall(null),
        V1ConfigMap.class, V1ConfigMapList.class);
    informer.addEventHandler(new ResourceEventHandler<V1ConfigMap>() {
      @Override public void onAdd(V1ConfigMap object) { informed.add("added"); }
      @Override public void onUpdate(V1ConfigMap before, V1ConfigMap after) { informed.add("updated"); }
      @Override public void onDelete(V1ConfigMap object, boolean isUnknown) { informed.add("deleted"); }
    });
    informers.startAllRegisteredInformers();

    var call = api.listNamespacedConfigMap(NAMESPACE).labelSelector(selector).watch(true).timeoutSeconds(50).buildCall(null);
    try (Watch<V1ConfigMap> watch = Watch.createWatch(client, call, new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType())) {
      V1ConfigMap object = new V1ConfigMap().metadata(new V1ObjectMeta().name(name).labels(Map.of("made-by", name)))
          .data(Map.of("key", "value"));
      api.createNamespacedConfigMap(NAMESPACE, object).execute();
      System.out.println("create");
      System.out.println("watch " + watch.next().type);
      System.out.println("informer " + informed.poll(50, TimeUnit.SECONDS));
      String applied = "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"" + name + "\"}, \"data\": {\"key\": \"other\"}}";
      V1ConfigMap after = PatchUtils.patch(V1ConfigMap.class,
          () -> api.patchNamespacedConfigMap(name, NAMESPACE, new V1Patch(applied)).fieldManager("official").force(true).buildCall(null),
          V1Patch.PATCH_FORMAT_APPLY_YAML, client);
      System.out.println("apply " + after.getData().get("key"));
      System.out.println("watch " + watch.next().type);
      api.deleteNamespacedConfigMap(name, NAMESPACE).execute();
      System.out.println("delete");
      System.out.println("watch " + watch.next().type);
    }
    String event = informed.poll(50, TimeUnit.SECONDS);
    while ("updated".equals(event)) {
      event = informed.poll(50, TimeUnit.SECONDS);
    }
    System.out.println("informer " + event);
    informers.stopAllRegisteredInformers();

    Process exec = new Exec(client).exec(NAMESPACE, pod, new String[] {"sh", "-c", "read -r line; echo got $line"}, true, false);
    exec.getOutputStream().write("input\n".getBytes(StandardCharsets.UTF_8));
    exec.getOutputStream().flush();
    String output = new String(exec.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
    boolean hasEnded = exec.waitFor(50, TimeUnit.SECONDS);
    System.out.println("exec " + (hasEnded ? exec.exitValue() : "does not end") + " " + output);
    exec.destroy();
    try {
      api.readNamespacedConfigMap(name, NAMESPACE).execute();
    } catch (ApiException error) {
      System.out.println("read " + error.getCode());
    }
    // Threads of its HTTP client would keep the process for a minute.
    System.exit(0);
  }
}
