package medallion

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{FileAlreadyExistsException => Exists}
import java.{lang => jl, util => ju}

import io.delta.storage.S3SingleDriverLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, FSDataOutputStream, Path}
import org.apache.hadoop.fs.s3a.RemoteFileChangedException
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, FileContextBasedCheckpointFileManager}

/** Objects of S3 that are written whole by one request, which the store refuses where one of the name exists. */
object PutIfAbsent {
  def apply(path: Path, conf: Configuration): FSDataOutputStream = {
    val made = path.getFileSystem(conf).createFile(path).create().overwrite(false)
    made.must("fs.option.create.conditional.overwrite", true)
    made.build().asInstanceOf[FSDataOutputStream]
  }

  def refused(path: Path)(write: => Unit): Unit =
    try write
    catch {
      case _: RemoteFileChangedException | _: FileAlreadyExistsException => throw new Exists(path.toString)
    }
}

/** Delta's commits: Delta's own store looks whether an entry exists, and then writes over whatever came since. */
class PutIfAbsentLogStore(conf: Configuration) extends S3SingleDriverLogStore(conf) {
  override def write(path: Path, actions: ju.Iterator[String], overwrite: jl.Boolean, conf: Configuration): Unit =
    if (overwrite) super.write(path, actions, overwrite, conf)
    else {
      // Set by delta/commit.py. Delta would write a later version where the store refuses this one.
      val only = Option(conf.get("spark.medallion.commit")).map(new Path(_))
      if (only.exists(next => next.getParent == path.getParent && next != path))
        throw new IOException(s"${path.getParent} has another process's commits; nothing was committed")
      PutIfAbsent.refused(path) {
        val stream = PutIfAbsent(path, conf)
        while (actions.hasNext) stream.write(s"${actions.next()}\n".getBytes(UTF_8))
        stream.close()
      }
    }
}

/** A checkpoint's files in S3: Spark's own way is a put, a copy to the last name and a delete. */
class PutIfAbsentCheckpoints(folder: Path, conf: Configuration)
    extends FileContextBasedCheckpointFileManager(folder, conf) {
  override def createAtomic(path: Path, overwrite: Boolean): CheckpointFileManager.CancellableFSDataOutputStream = {
    val files = path.getFileSystem(conf)
    if (files.getScheme != "s3a" && files.getScheme != "s3") super.createAtomic(path, overwrite)
    else new WholeObject(if (overwrite) files.create(path, true) else PutIfAbsent(path, conf), path)
  }
}

/** The object exists once it is closed; cancelled before, it never does. */
class WholeObject(stream: FSDataOutputStream, path: Path)
    extends CheckpointFileManager.CancellableFSDataOutputStream(stream) {
  private var ended = false

  override def close(): Unit = synchronized {
    if (!ended) { ended = true; PutIfAbsent.refused(path)(stream.close()) }
  }

  override def cancel(): Unit = synchronized {
    if (!ended) { ended = true; stream.abort() }
  }
}
