use portcullis_harness::client::{TlsConnection, TlsTarget};

use crate::fixture::NAME;

/// Upgraded connections and requests whose body is still coming: what an `exec` and a `cp` are.
pub(super) struct Sessions {
    namespace: String,
    tunnels: Vec<TlsConnection>,
    uploads: Vec<TlsConnection>,
    turns: usize,
}

impl Sessions {
    /// The given number of each, as the user of the target's certificate or with a token; every other tunnel is SPDY.
    pub(super) fn open(target: &TlsTarget, token: &str, count: usize) -> Self {
        Self::open_in("default", target, Some(token), count)
    }

    /// As [`Sessions::open`], in a namespace; without a token all are the certificate's user.
    pub(super) fn open_in(namespace: &str, target: &TlsTarget, token: Option<&str>, count: usize) -> Self {
        let credential = |number: usize| match token {
            Some(token) if number % 2 == 1 => format!("Authorization: Bearer {token}\r\n"),
            _ => String::new(),
        };
        let connect = |head: String| {
            let mut connection = target.connect().unwrap();
            connection.write(head.as_bytes()).unwrap();
            connection
        };
        let tunnel = |number: usize| {
            let (method, protocol) = if number % 4 < 2 { ("GET", "websocket") } else { ("POST", "SPDY/3.1") };
            let mut connection = connect(format!(
                "{method} /api/v1/namespaces/{namespace}/pods/web/exec?command=sh HTTP/1.1\r\nHost: {NAME}\r\n{}Connection: Upgrade\r\nUpgrade: {protocol}\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                credential(number)
            ));
            assert_eq!(connection.read_response(false).unwrap().status, 101, "{protocol}");
            connection
        };
        let upload = |number: usize| {
            connect(format!(
                "PUT {}/{number} HTTP/1.1\r\nHost: {NAME}\r\n{}Transfer-Encoding: chunked\r\n\r\n",
                upload_path(namespace),
                credential(number)
            ))
        };
        Sessions {
            namespace: namespace.to_owned(),
            tunnels: (0..count).map(tunnel).collect(),
            uploads: (0..count).map(upload).collect(),
            turns: 0,
        }
    }

    /// A word there and back on each tunnel, and a piece more of each upload.
    pub(super) fn go_on(&mut self) {
        self.turns += 1;
        let word = word(self.turns);
        for tunnel in &mut self.tunnels {
            tunnel.write(word.as_bytes()).unwrap();
        }
        for tunnel in &mut self.tunnels {
            let echo = tunnel.read_exact(word.len()).unwrap();
            assert_eq!(String::from_utf8(echo).unwrap(), word, "turn {}", self.turns);
        }
        for upload in &mut self.uploads {
            upload.write(format!("{:x}\r\n{word}\r\n", word.len()).as_bytes()).unwrap();
        }
    }

    /// Ends the uploads. Each was received whole.
    pub(super) fn finish(mut self) {
        let sent: String = (1..=self.turns).map(word).collect();
        assert!(!self.uploads.is_empty() && self.turns > 0);
        for upload in &mut self.uploads {
            upload.write(b"0\r\n\r\n").unwrap();
            let answer = upload.read_response(false).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            let text = answer.text();
            let (told, received) = text.split_once('\n').unwrap();
            assert!(told.starts_with(&format!("proxied PUT {}", upload_path(&self.namespace))), "{told}");
            assert_eq!(received, sent);
        }
    }
}

fn upload_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services/web/proxy/upload")
}

fn word(turn: usize) -> String {
    format!("turn {turn};")
}
