import java.io.FileInputStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * A client with several certificates in its keystore. Which of them it presents is the choice of Java's own key manager, by the
 * authorities that the handshake names.
 *
 * <p>Arguments: port, server name, path, file of the server's CA, and for each certificate its file and the file of its key (PEM,
 * PKCS #8, elliptic curve). Prints the status line of the answer.
 */
final class TwoCertificates {
    private static final char[] PASSWORD = "none".toCharArray();

    private TwoCertificates() {}

    public static void main(String[] arguments) throws Exception {
        KeyStore authorities = empty();
        authorities.setCertificateEntry("server", certificate(arguments[3]));
        KeyStore own = empty();
        for (int at = 4; at + 1 < arguments.length; at += 2) {
            Certificate[] chain = {certificate(arguments[at])};
            own.setKeyEntry("certificate-" + at, key(arguments[at + 1]), PASSWORD, chain);
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(authorities);
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);

        InetAddress loopback = InetAddress.getLoopbackAddress();
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(loopback, Integer.parseInt(arguments[0]))) {
            SSLParameters parameters = socket.getSSLParameters();
            parameters.setServerNames(List.of(new SNIHostName(arguments[1])));
            socket.setSSLParameters(parameters);
            socket.setSoTimeout(10_000);
            String request = "GET " + arguments[2] + " HTTP/1.1\r\nHost: " + arguments[1] + "\r\nConnection: close\r\n\r\n";
            socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
            String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1);
            System.out.println(answer.lines().findFirst().orElse(""));
        }
    }

    private static KeyStore empty() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Certificate certificate(String file) throws Exception {
        try (FileInputStream input = new FileInputStream(file)) {
            return CertificateFactory.getInstance("X.509").generateCertificate(input);
        }
    }

    private static PrivateKey key(String file) throws Exception {
        String pem = Files.readString(Path.of(file)).replaceAll("-----[A-Z ]*-----|\\s", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
    }
}
