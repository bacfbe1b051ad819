use portcullis_harness::client::{TlsConnection, TlsTarget};

use crate::world::NAME;

const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec?command=sh";
const UPLOAD: &str = "/api/v1/namespaces/default/services/web/proxy/upload";

/// Upgraded connections and requests whose body is still coming: what an `exec` and a `cp` are.
pub(super) struct Sessions {
    tunnels: Vec<TlsConnection>,
    uploads: Vec<TlsConnection>,
    turns: usize,
}

impl Sessions {
    /// So many of each, as the user of the target's certificate or with a token; every other tunnel is SPDY.
    pub(super) fn open(target: &TlsTarget, token: &str, count: usize) -> Self {
        let credential = |number: usize| match number % 2 {
            0 => String::new(),
            _ => format!("Authorization: Bearer {token}\r\n"),
        };
        let connect = |head: String| {
            let mut connection = target.connect().unwrap();
            connection.write(head.as_bytes()).unwrap();
            connection
        };
        let tunnel = |number: usize| {
            let (method, protocol) = if number % 4 < 2 { ("GET", "websocket") } else { ("POST", "SPDY/3.1") };
            let mut connection = connect(format!(
                "{method} {EXEC} HTTP/1.1\r\nHost: {NAME}\r\n{}Connection: Upgrade\r\nUpgrade: {protocol}\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                credential(number)
            ));
            assert_eq!(connection.read_response(false).unwrap().status, 101, "{protocol}");
            connection
        };
        let upload = |number: usize| {
            connect(format!(
                "PUT {UPLOAD}/{number} HTTP/1.1\r\nHost: {NAME}\r\n{}Transfer-Encoding: chunked\r\n\r\n",
                credential(number)
            ))
        };
        Sessions { tunnels: (0..count).map(tunnel).collect(), uploads: (0..count).map(upload).collect(), turns: 0 }
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
            assert!(told.starts_with(&format!("proxied PUT {UPLOAD}")), "{told}");
            assert_eq!(received, sent);
        }
    }
}

fn word(turn: usize) -> String {
    format!("turn {turn};")
}
