package dev.portcullis;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.ExecWatch;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Fabric8 KUBECONFIG POD: drives Fabric8's client, and prints a line for each thing that it did. */
public final class Fabric8 {
  private static final String NAMESPACE = "default";

  public static void main(String[] arguments) throws Exception {
    String pod = arguments[1];
    String name = "java-" + pod;
    Config config = Config.fromKubeconfig(Files.readString(Path.of(arguments[0])));
    // The keys of the tests are of elliptic curves, which it does not find out by itself.
    config.setClientKeyAlgo("EC");
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      var pods = client.pods().inNamespace(NAMESPACE).withField("metadata.name", pod).list();
      System.out.println("list " + pods.getItems().size());
      var maps = client.configMaps().inNamespace(NAMESPACE);
      BlockingQueue<String> events = new LinkedBlockingQueue<>();
      var watching = maps.withLabel("made-by", name).watch(new Watcher<ConfigMap>() {
        @Override public void eventReceived(Action action, ConfigMap object) { events.add(action.name()); }
        @Override public void onClose(WatcherException cause) { events.add("closed " + cause); }
      });
      ConfigMap object = new ConfigMapBuilder().withNewMetadata().withName(name).addToLabels("made-by", name).endMetadata()
          .addToData("key", "value").build();
      maps.resource(object).create();
      System.out.println("create");
      System.out.println("watch " + events.poll(50, TimeUnit.SECONDS));
      maps.resource(object).serverSideApply();
      System.out.println("apply");
      maps.withName(name).delete();
      System.out.println("delete");
      String event = events.poll(50, TimeUnit.SECONDS);
      while ("MODIFIED".equals(event)) {
        event = events.poll(50, TimeUnit.SECONDS);
      }
      System.out.println("watch " + event);
      watching.close();
      ByteArrayOutputStream output = new ByteArrayOutputStream();
      var input = new ByteArrayInputStream("input\n".getBytes(StandardCharsets.UTF_8));
      try (ExecWatch exec = client.pods().inNamespace(NAMESPACE).withName(pod).readingInput(input).writingOutput(output)
          .exec("sh", "-c", "read -r line; echo got $line")) {
        System.out.println("exec " + exec.exitCode().get(50, TimeUnit.SECONDS) + " " + output.toString(StandardCharsets.UTF_8).trim());
      }
      try {
        maps.resource(object).update();
      } catch (KubernetesClientException error) {
        System.out.println("update " + error.getCode());
      }
    }
  }
}
