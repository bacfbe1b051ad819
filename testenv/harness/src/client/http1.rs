//! Reading one HTTP/1.1 answer from a byte stream.

use std::io::{ErrorKind, Read};

use super::Response;
use crate::error::{Error, Result};

/// More than any answer in a test has.
const MAX_HEAD: usize = 256 << 10;

/// Reads one final answer; interim ones other than 101 are skipped. `head_request` says that the answer has no body
/// whatever its headers say. After a 101 the body is empty and the stream belongs to the caller.
pub(super) fn read_response(stream: &mut impl Read, head_request: bool) -> Result<Response> {
    loop {
        let (status, headers) = read_head(stream)?;
        if (100..200).contains(&status) && status != 101 {
            continue;
        }
        let mut response = Response { status, headers, body: Vec::new() };
        let bodiless = head_request || matches!(status, 101 | 204 | 304);
        if !bodiless {
            response.body = read_body(stream, &response)?;
        }
        return Ok(response);
    }
}

type Head = (u16, Vec<(String, Vec<u8>)>);

fn read_head(stream: &mut impl Read) -> Result<Head> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD {
            return Err(bad("reading the head", "too long"));
        }
        head.push(read_byte(stream)?);
    }
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| bad("reading the status line", &first))?;
    let headers = lines.filter(|line| !line.is_empty()).map(split_header).collect();
    Ok((status, headers))
}

fn split_header(line: &[u8]) -> (String, Vec<u8>) {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    let (name, value) = line.split_at(colon);
    let value = value.strip_prefix(b":").unwrap_or(value);
    (String::from_utf8_lossy(name).into_owned(), value.trim_ascii().to_owned())
}

fn read_body(stream: &mut impl Read, response: &Response) -> Result<Vec<u8>> {
    let chunked = response.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    if chunked {
        return read_chunks(stream);
    }
    match response.header("content-length") {
        Some(length) => {
            let length = length.parse().map_err(|_| bad("reading content-length", &length))?;
            read_n(stream, length)
        }
        None => read_to_end(stream),
    }
}

fn read_chunks(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = read_chunk(stream)? {
        body.extend(chunk);
    }
    Ok(body)
}

/// One chunk of a chunked body; `None` is the last one, after which the trailers are consumed.
pub(super) fn read_chunk(stream: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let line = read_line(stream)?;
    let size = line.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(size, 16).map_err(|_| bad("reading a chunk's size", &line))?;
    if size == 0 {
        while !read_line(stream)?.is_empty() {}
        return Ok(None);
    }
    let chunk = read_n(stream, size)?;
    read_line(stream)?;
    Ok(Some(chunk))
}

fn read_line(stream: &mut impl Read) -> Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(read_byte(stream)?);
    }
    Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
}

fn read_byte(stream: &mut impl Read) -> Result<u8> {
    let mut byte = [0_u8];
    stream.read_exact(&mut byte).map_err(|error| silent_or_bad("reading", &error))?;
    let [byte] = byte;
    Ok(byte)
}

fn read_n(stream: &mut impl Read, length: usize) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let read = stream.take(length as u64).read_to_end(&mut body);
    let read = read.map_err(|error| silent_or_bad("reading the body", &error))?;
    if read == length { Ok(body) } else { Err(bad("reading the body", &format!("{read} of {length} bytes"))) }
}

/// Everything until the peer closes; a close without TLS's goodbye is an end as well.
pub(super) fn read_to_end(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    match stream.read_to_end(&mut body) {
        Ok(_) => Ok(body),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(body),
        Err(error) => Err(silent_or_bad("reading to the end", &error)),
    }
}

fn silent_or_bad(step: &'static str, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout { step },
        _ => bad(step, &error.to_string()),
    }
}

fn bad(step: &'static str, reason: &str) -> Error {
    Error::Http { step, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::read_response;

    #[test]
    fn bodies_end_where_their_framing_says() {
        let table: [(&str, bool, u16, &str); 6] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokREST", false, 200, "ok"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\nREST",
                false,
                200,
                "abc",
            ),
            ("HTTP/1.1 200 OK\r\n\r\nto the end", false, 200, "to the end"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 X\r\nContent-Length: 1\r\n\r\nn", false, 404, "n"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, 200, ""),
            ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nraw", false, 101, ""),
        ];
        for (bytes, head, status, body) in table {
            let response = read_response(&mut bytes.as_bytes(), head).unwrap();
            assert_eq!((response.status, response.text().as_str()), (status, body), "{bytes}");
        }
        assert!(read_response(&mut &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"[..], false).is_err());
    }
}
