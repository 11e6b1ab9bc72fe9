"""nbgrader's settings: the repository is a course that nbgrader can serve, grade and export."""

c = get_config()  # noqa: F821  nbgrader defines it

c.CourseDirectory.course_id = "minitorch"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
# nbgrader copies every other file of a source folder into the release: not the sources.
c.CourseDirectory.ignore = ["*.py", "*.pyc", "__pycache__", "feedback", ".*"]

c.ClearSolutions.code_stub = {
    "python": 'raise NotImplementedError("write your solution here and run this cell again")'
}
