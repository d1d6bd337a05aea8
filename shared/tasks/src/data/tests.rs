//! Rows of each format, packed or not, with their numbers, up to what is broken.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::json;

use super::*;

fn read(name: &str, bytes: &[u8]) -> Vec<Result<Row, RowError>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), bytes).unwrap();
    DataFile::locate(name, folder.path()).unwrap().rows().unwrap().collect()
}

/// The rows as numbers and JSON.
fn rows(name: &str, bytes: &[u8]) -> Vec<(u64, Value)> {
    let rows = read(name, bytes).into_iter().map(Result::unwrap);
    rows.map(|row| (row.number, Value::Object(row.columns))).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn rows_are_numbered_by_line_and_blank_lines_are_passed_over() {
    let text = b"\xef\xbb\xbf{\"a\": 1}\r\n\r\n  {\"a\": \"two\\u0000\"}\n\n{\"a\": [3]}";
    let expected = [
        (1, json!({ "a": 1 })),
        (3, json!({ "a": "two\0" })),
        (5, json!({ "a": [3] })),
    ];
    assert_eq!(rows("a.jsonl", text), expected);
}

#[test]
fn packed_files_hold_the_same_rows() {
    let text = "{\"a\": 1}\n{\"a\": 2}\n";
    let plain = rows("a.jsonl", text.as_bytes());
    assert_eq!(rows("a.jsonl.gz", &gzip(text.as_bytes())), plain);
    assert_eq!(
        rows("A.JSONL.ZST", &zstd::encode_all(text.as_bytes(), 3).unwrap()),
        plain
    );
    assert_eq!(rows("a.csv.gz", &gzip(b"a\n1\n")), [(2, json!({ "a": "1" }))]);
}

#[test]
fn members_and_frames_that_follow_each_other_are_all_read() {
    let (one, two) = ("{\"a\": 1}\n", "{\"a\": 2}\n");
    let gz = [gzip(one.as_bytes()), gzip(two.as_bytes())].concat();
    assert_eq!(rows("a.jsonl.gz", &gz).len(), 2);
    let zst = [
        zstd::encode_all(one.as_bytes(), 3).unwrap(),
        zstd::encode_all(two.as_bytes(), 3).unwrap(),
    ]
    .concat();
    assert_eq!(rows("a.jsonl.zst", &zst).len(), 2);
}

#[test]
fn csv_values_are_texts_and_rows_are_numbered_by_line() {
    let text = b"\xef\xbb\xbfid,text\r\n1,plain\r\n2,\"two\r\nlines, \"\"quoted\"\"\"\r\n3,5\" pipe\r\n\r\n4,\r\n";
    let expected = [
        (2, json!({ "id": "1", "text": "plain" })),
        (3, json!({ "id": "2", "text": "two\r\nlines, \"quoted\"" })),
        (5, json!({ "id": "3", "text": "5\" pipe" })),
        (7, json!({ "id": "4", "text": "" })),
    ];
    assert_eq!(rows("a.csv", text), expected);
}

#[test]
fn rows_before_a_broken_quote_are_read() {
    let read = read("a.csv", b"id,text\n1,\"x\"\n2,\"y\"z\n3,w\n");
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].as_ref().unwrap().columns["text"], "x");
    assert_eq!(read[1].as_ref().unwrap_err().row, Some(3));
}

#[test]
fn a_file_uri_names_a_file_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("with space.jsonl");
    std::fs::write(&path, "{\"a\": 1}\n").unwrap();
    let uri = url::Url::from_file_path(&path).unwrap();
    let file = DataFile::locate(uri.as_str(), Path::new("/elsewhere")).unwrap();
    assert_eq!(file.rows().unwrap().count(), 1);
}

fn parquet(compression: Compression) -> Vec<u8> {
    parquet_with(compression, b"bytes")
}

fn parquet_with(compression: Compression, raw: &[u8]) -> Vec<u8> {
    let schema = "message rows {
        required binary q (UTF8); required int64 n; required float x; optional binary raw;
        required group choices (LIST) { repeated group list { required binary element (UTF8); } }
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let texts = |texts: &[&str]| texts.iter().map(|text| ByteArray::from(*text)).collect::<Vec<_>>();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<ByteArrayType>()
        .write_batch(&texts(&["eins", "zwei"]), None, None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<Int64Type>()
        .write_batch(&[1, i64::MAX], None, None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<FloatType>()
        .write_batch(&[0.1, 2.0], None, None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<ByteArrayType>()
        .write_batch(&[ByteArray::from(raw.to_vec())], Some(&[1, 0]), None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let levels = (Some(&[1_i16, 1, 1][..]), Some(&[0_i16, 1, 0][..]));
    column
        .typed::<ByteArrayType>()
        .write_batch(&texts(&["a", "b", "c"]), levels.0, levels.1)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn parquet_rows_keep_their_types_and_lists() {
    let expected = [
        (
            1,
            json!({ "q": "eins", "n": 1, "x": 0.1, "raw": "bytes", "choices": ["a", "b"] }),
        ),
        (
            2,
            json!({ "q": "zwei", "n": i64::MAX, "x": 2.0, "raw": null, "choices": ["c"] }),
        ),
    ];
    assert_eq!(rows("a.parquet", &parquet(Compression::SNAPPY)), expected);
    assert_eq!(
        rows("a.parquet", &parquet(Compression::ZSTD(Default::default()))),
        expected
    );
}

/// A file of optional columns, each with one value and a null behind it.
fn parquet_of(schema: &str, write: &[&dyn Fn(&mut SerializedColumnWriter<'_>)]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for write in write {
        let mut column = group.next_column().unwrap().unwrap();
        write(&mut column);
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

/// What `datasets` 5.2.0 and Python's `str` make of such columns.
#[test]
fn parquet_values_of_task_files_are_those_of_python() {
    let schema = "message rows {
        optional int64 naive (TIMESTAMP(MICROS,false)); optional int64 zoned (TIMESTAMP(MILLIS,true));
        optional int64 fine (TIMESTAMP(NANOS,false)); optional int32 time (TIME(MILLIS,false)); optional int64 exact (TIME(NANOS,false));
        optional float x; optional binary raw; optional int64 u (INTEGER(64,false)); optional int64 n;
        optional group part { optional int64 naive (TIMESTAMP(MICROS,false)); }
    }";
    let long = |value: i64| {
        move |column: &mut SerializedColumnWriter<'_>| {
            let levels = [1, 0];
            column
                .typed::<Int64Type>()
                .write_batch(&[value], Some(&levels), None)
                .unwrap();
        }
    };
    let nested = |column: &mut SerializedColumnWriter<'_>| {
        let column = column.typed::<Int64Type>();
        column
            .write_batch(&[1_577_872_800_000_000], Some(&[2, 0]), None)
            .unwrap();
    };
    let time = |column: &mut SerializedColumnWriter<'_>| {
        let column = column.typed::<Int32Type>();
        column.write_batch(&[3_723_000], Some(&[1, 0]), None).unwrap();
    };
    let float = |column: &mut SerializedColumnWriter<'_>| {
        column
            .typed::<FloatType>()
            .write_batch(&[0.1], Some(&[1, 0]), None)
            .unwrap();
    };
    let raw = |column: &mut SerializedColumnWriter<'_>| {
        let bytes = [ByteArray::from("ab")];
        column
            .typed::<ByteArrayType>()
            .write_batch(&bytes, Some(&[1, 0]), None)
            .unwrap();
    };
    let file = |fine: i64, exact: i64| {
        let (naive, zoned) = (long(1_577_872_800_000_000), long(1_577_872_800_040));
        let (fine, exact, unsigned, plain) = (long(fine), long(exact), long(-1), long(7));
        parquet_of(
            schema,
            &[
                &naive, &zoned, &fine, &time, &exact, &float, &raw, &unsigned, &plain, &nested,
            ],
        )
    };
    let read = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.parquet"), bytes).unwrap();
        let file = DataFile::locate("a.parquet", folder.path()).unwrap();
        let rows: Vec<_> = file.rows_of_python().unwrap().collect();
        rows
    };
    let rows = read(&file(1_577_872_800_000_000_001, 3_723_000_004_000));
    let row = rows[0].as_ref().unwrap();
    assert_eq!(
        Value::Object(row.columns.clone()),
        json!({
            "naive": "2020-01-01 10:00:00", "zoned": "2020-01-01 10:00:00.040000+00:00",
            "fine": "2020-01-01 10:00:00.000000001", "time": "01:02:03", "exact": "01:02:03.000004",
            "x": 0.100_000_001_490_116_12, "u": u64::MAX, "n": 7, "part": {"naive": "2020-01-01 10:00:00"}
        })
    );
    assert_eq!(row.unread, ["raw"]);
    let said = read(&file(0, 1)).remove(0).unwrap_err();
    assert!(said.message.contains("billionths of seconds"), "{}", said.message);
}

#[test]
fn a_parquet_file_that_is_cut_or_damaged_is_an_error() {
    let whole = parquet(Compression::UNCOMPRESSED);
    let folder = tempfile::tempdir().unwrap();
    let open = |bytes: &[u8]| {
        std::fs::write(folder.path().join("a.parquet"), bytes).unwrap();
        let rows = DataFile::locate("a.parquet", folder.path()).unwrap().rows()?;
        rows.collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(open(&whole).unwrap().len(), 2);
    assert!(open(&whole[..whole.len() - 9]).is_err());
    assert!(open(&whole[20..]).is_err());
}

#[test]
fn a_damaged_byte_of_a_parquet_file_never_panics() {
    let whole = parquet(Compression::UNCOMPRESSED);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for index in (0..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[index] ^= 0x5f;
        std::fs::write(&path, &damaged).unwrap();
        let file = DataFile::locate("a.parquet", folder.path()).unwrap();
        if let Ok(rows) = file.rows() {
            assert!(rows.count() <= 1_000, "byte {index}");
        }
    }
}

#[test]
fn a_row_that_does_not_end_is_an_error_and_not_kept() {
    let long = "x".repeat(MAX_ROW_BYTES as usize);
    let lines = format!("{{\"q\": 1}}\n{{\"q\": \"{long}\"}}\n");
    let rows = read("rows.jsonl", lines.as_bytes());
    assert!(rows[0].is_ok());
    let error = rows[1].as_ref().unwrap_err();
    assert_eq!((error.row, rows.len()), (Some(2), 2));
    assert!(error.message.contains("does the file have line breaks?"), "{error:?}");
    let quoted = format!("q,a\n1,2\n3,\"{long}\"\n");
    let rows = read("rows.csv", quoted.as_bytes());
    assert!(rows[0].is_ok());
    let error = rows[1].as_ref().unwrap_err();
    assert_eq!((error.row, rows.len()), (Some(3), 2));
    assert!(error.message.contains("is a quote never closed?"), "{error:?}");
}

#[test]
fn a_parquet_column_of_bytes_that_are_no_text_is_left_out() {
    let rows = rows("a.parquet", &parquet_with(Compression::SNAPPY, b"\x89PNG\xff"));
    assert_eq!(rows[0].1, json!({"q": "eins", "n": 1, "x": 0.1, "choices": ["a", "b"]}));
    assert_eq!(rows[1].1["q"], json!("zwei"));
    let read = read("a.parquet", &parquet_with(Compression::SNAPPY, b"\x89PNG\xff"));
    assert_eq!(read[0].as_ref().unwrap().unread, ["raw"]);
    assert!(read[1].as_ref().unwrap().unread.is_empty());
}

#[test]
fn a_key_that_a_row_names_twice_is_an_error() {
    let text = b"{\"q\": 1, \"a\": {\"q\": 2}}\n{\"q\": 1, \"a\": 2, \"q\": 1}\n{\"q\": 3}\n";
    let read = read("a.jsonl", text);
    assert!(read[0].is_ok() && read[2].is_ok());
    let error = read[1].as_ref().unwrap_err();
    assert_eq!(
        (error.row, error.message.as_str()),
        (Some(2), "names column \"q\" twice")
    );
}

#[test]
fn a_whole_number_of_a_row_is_exact_or_refused() {
    let read = read(
        "a.jsonl",
        b"{\"a\": -0, \"b\": 18446744073709551615}\n{\"a\": 123456789012345678901234567890}\n{\"a\": 1}\n",
    );
    let first = &read[0].as_ref().unwrap().columns;
    assert_eq!((&first["a"], &first["b"]), (&json!(0), &json!(u64::MAX)));
    let error = read[1].as_ref().unwrap_err();
    assert_eq!(error.row, Some(2));
    assert!(error.message.contains("123456789012345678901234567890"), "{error:?}");
    assert!(read[2].is_ok());
}

#[test]
fn a_pipe_is_no_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path().join("a.jsonl"))
        .status()
        .unwrap();
    assert!(made.success());
    let said = DataFile::locate("a.jsonl", folder.path()).unwrap_err();
    assert!(said.ends_with("is a pipe or a device, not a file"), "{said}");
}

/// Two rows of two columns of text.
fn two_columns(names: [&str; 2], compression: Compression) -> Vec<u8> {
    let [one, other] = names;
    let schema = format!("message rows {{ required binary {one} (UTF8); required binary {other} (UTF8); }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        let values = ["a", "b"].map(ByteArray::from);
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)
            .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_column_that_a_parquet_file_names_twice_is_an_error() {
    let read = read("a.parquet", &two_columns(["q", "q"], Compression::UNCOMPRESSED));
    let error = read[0].as_ref().unwrap_err();
    assert_eq!(error.message, "names column \"q\" twice");
    assert_eq!(
        rows("a.parquet", &two_columns(["q", "a"], Compression::UNCOMPRESSED)).len(),
        2
    );
}

#[test]
fn a_compression_that_is_not_read_is_named_with_what_to_do() {
    let names = ["q", "a"];
    let mut bytes = two_columns(names, Compression::SNAPPY);
    assert_eq!(rows("a.parquet", &bytes).len(), 2);
    // The writer lacks what the reader lacks: only the footer says so.
    let codec = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.parquet"), bytes).unwrap();
        let opened = DataFile::locate("a.parquet", folder.path()).unwrap().rows();
        opened.err().map(|error| error.message)
    };
    let said = (0..bytes.len()).rev().find_map(|index| {
        // A codec is a thrift number of one byte; 1 is snappy and 2 gzip, each doubled.
        let is_snappy = bytes[index] == 2;
        if is_snappy {
            bytes[index] = 4;
        }
        let said = codec(&bytes).filter(|said| said.contains("compressed by"));
        if is_snappy {
            bytes[index] = 2;
        }
        said
    });
    let said = said.unwrap();
    assert!(
        said.contains("GZIP, which is not read here; write the file with zstd"),
        "{said}"
    );
}
